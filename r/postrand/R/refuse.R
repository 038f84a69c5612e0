# Every refusal says what is wrong, where, and the next step.
refuse <- function(what, fix = "", where = "") {
  text <- paste0(if (nzchar(where)) paste0(where, ": "), what, if (nzchar(fix)) paste0(". Next: ", fix), ".")
  stop(structure(class = c("postrand_refusal", "error", "condition"), list(message = text, call = NULL)))
}

quoted <- function(names) paste(sQuote(names, FALSE), collapse = ", ")

`%or%` <- function(x, other) if (is.null(x)) other else x

# A number 0, 1, ... for each distinct row of columns of one length.
distinct <- function(columns, n) {
  number <- numeric(n)
  for (column in columns) {
    code <- match(column, unique(column))
    number <- number * (max(code, 0) + 1) + code
    number <- match(number, unique(number))
  }
  if (length(columns)) number - 1 else number
}
