# Unbiased tables from a release, in R 4.0 or later. CSV needs base R only; each other format needs one package.
#
#   source("postrand.R", encoding = "UTF-8")
#   release <- postrand_read(".")                       # the folder of r_categories.csv and r_matrix_*.csv
#   data <- postrand_data(".")                          # the released records, in any format
#   postrand_table(data, c("sex", "region"), release)
#   postrand_table(data, "sex", release, weights = "weight")
#
# Packages that read the data (CSV needs none):
@packages@
# SPSS's user-missing codes and Stata's .a to .z are kept, because they can be categories.
#
# Rows of a matrix are the true categories, columns the released ones. Estimates are unbiased, so they can lie outside
# [0, 1]. Standard errors include sampling and perturbation.

# The released records: one file, or a folder of parts. `name` is that of the file in `dir`.
postrand_data <- function(dir = ".", name = NULL) {
  if (is.null(name)) name <- list.files(dir, "^data([.](@suffixes@))?$")
  if (length(name) != 1) stop("the folder ", dir, " must contain exactly one data file: use name = to choose it")
  path <- file.path(dir, name)
  if (dir.exists(path)) path <- sort(list.files(path, "^part-", full.names = TRUE))
  if (!length(path) || !all(file.exists(path))) stop("no data found at ", file.path(dir, name), ": check dir and name")
  do.call(rbind, lapply(path, postrand_file))
}

postrand_file <- function(path) {
  type <- tolower(sub(".*[.]", "", basename(path)))
  package <- function(...) {
    for (found in c(...)) if (requireNamespace(found, quietly = TRUE)) return(found)
    stop("to read .", type, " files, install the R package ", paste(c(...), collapse = " or "))
  }
  frame <- switch(type,
    @readers@
    stop("no reader for .", type, " files")
  )
  as.data.frame(frame)
}

# Columns as the values in the file: labels are in r_categories.csv, and missing codes count as values.
postrand_values <- function(frame) {
  frame[] <- lapply(frame, function(x) {
    letters <- if (is.double(x)) haven::na_tag(x) else NA
    if (inherits(x, "haven_labelled")) attributes(x) <- NULL
    if (is.character(x)) x[!nzchar(x)] <- NA
    if (all(is.na(letters))) return(x)
    whole <- !is.na(x) & x == floor(x)
    text <- ifelse(is.na(x), NA, ifelse(whole, sprintf("%.0f", x), as.character(x)))
    ifelse(is.na(letters), text, paste0(".", letters))
  })
  frame
}

postrand_read <- function(dir = ".") {
  read <- function(name) {
    read.csv(file.path(dir, name), colClasses = "character", check.names = FALSE, encoding = "UTF-8", na.strings = NULL)
  }
  blocks <- lapply(list.files(dir, "^r_matrix_[0-9]+[.]csv$"), function(name) {
    x <- read(name)
    k <- nrow(x)
    held <- seq_len(ncol(x) - k)
    matrix_of <- function(columns) matrix(as.numeric(as.matrix(x[, columns, drop = FALSE])), nrow = k)
    list(variables = names(x)[held], cells = matrix_of(held), law = matrix_of(-held))
  })
  list(categories = read("r_categories.csv"), blocks = blocks)
}

postrand_table <- function(data, variables, release, weights = NULL) {
  axes <- postrand_axes(variables, release)
  cells <- lapply(axes, function(axis) postrand_cells(axis, data, release))
  complete <- Reduce(`&`, lapply(cells, function(cell) !is.na(cell)))
  w <- postrand_weights(weights, data)[complete]
  sizes <- vapply(axes, function(axis) nrow(axis$cells), 1)
  index <- rep(1, length(w))
  for (a in seq_along(axes)) index <- index + (cells[[a]][complete] - 1) * prod(sizes[seq_len(a - 1)])
  summed <- function(x) {
    total <- rowsum(x, index)
    counts <- array(0, sizes)
    counts[as.numeric(rownames(total))] <- total
    counts
  }
  operators <- lapply(axes, function(axis) axis$show %*% solve(t(axis$law)))
  squares <- lapply(operators, function(b) b^2)
  n <- length(w)
  value <- postrand_apply(operators, summed(w)) / sum(w)
  cross <- postrand_apply(operators, summed(w^2))
  spread <- postrand_apply(squares, summed(w^2)) - 2 * value * cross + sum(w^2) * value^2
  error <- sqrt(pmax(n / (n - 1) * spread, 0)) / sum(w)
  postrand_frame(axes, variables, release, value, error)
}

# A weight for each record: 1, a column by its name, or the numbers themselves.
postrand_weights <- function(weights, data) {
  if (is.null(weights)) return(rep(1, nrow(data)))
  if (is.character(weights) && length(weights) == 1) {
    if (is.null(data[[weights]])) stop("the data do not have a column '", weights, "'")
    weights <- data[[weights]]
  }
  weights <- as.numeric(weights)
  if (length(weights) != nrow(data)) stop("weights must be the name of a column, or one number for each record")
  if (anyNA(weights)) stop("weights: at least one weight is missing or not a number")
  weights
}

# One axis for each block or unperturbed variable of the table; `show` sums its cells into those that are shown.
postrand_axes <- function(variables, release) {
  axes <- list()
  for (name in variables) {
    if (any(vapply(axes, function(axis) name %in% axis$variables, TRUE))) next
    held <- Filter(function(block) name %in% block$variables, release$blocks)
    axis <- if (length(held)) held[[1]] else {
      size <- sum(release$categories$variable == name)
      if (size == 0) stop("r_categories.csv does not contain the variable '", name, "'")
      list(variables = name, cells = matrix(seq_len(size) - 1), law = diag(size))
    }
    axis$shown <- variables[variables %in% axis$variables]
    codes <- lapply(axis$shown, function(v) seq_len(sum(release$categories$variable == v)) - 1)
    axis$grid <- as.matrix(expand.grid(codes))
    at <- axis$cells[, match(axis$shown, axis$variables), drop = FALSE]
    key <- function(m) apply(m, 1, paste, collapse = " ")
    axis$show <- 1 * outer(key(axis$grid), key(at), "==")
    axes <- c(axes, list(axis))
  }
  axes
}

# The cell of each record on an axis; NA if a variable of the axis is missing.
postrand_cells <- function(axis, data, release) {
  codes <- vapply(axis$variables, function(name) {
    known <- release$categories[release$categories$variable == name, ]
    given <- data[[name]]
    if (is.null(given)) stop("the data do not have a column '", name, "'")
    if (is.factor(given)) given <- as.character(given)
    if (inherits(given, "haven_labelled")) attributes(given) <- NULL
    truth <- function(x) tolower(as.character(if (is.numeric(x)) as.logical(x) else x))
    as_key <- switch(known$type[1], number = as.numeric, logical = truth, as.character)
    values <- known$missing != "yes"
    code <- match(as_key(given), as_key(known$value[values])) - 1
    if (any(is.na(code) & !is.na(given))) stop("variable '", name, "' has a value that is not in r_categories.csv")
    if (any(!values)) code[is.na(given)] <- sum(values)
    code
  }, numeric(nrow(data)))
  codes <- matrix(codes, nrow = nrow(data))
  cell <- match(apply(codes, 1, paste, collapse = " "), apply(axis$cells, 1, paste, collapse = " "))
  if (any(is.na(cell) & !apply(is.na(codes), 1, any))) stop("the data contain a combination that is never released: use the data of this release")
  cell
}

# Apply one matrix along each axis of an array; no Kronecker product is built.
postrand_apply <- function(operators, counts) {
  for (a in seq_along(operators)) {
    order <- c(a, seq_along(dim(counts))[-a])
    turned <- aperm(counts, order)
    done <- operators[[a]] %*% matrix(turned, nrow = dim(turned)[1])
    counts <- aperm(array(done, c(nrow(done), dim(turned)[-1])), order(order))
  }
  counts
}

postrand_frame <- function(axes, variables, release, value, error) {
  index <- arrayInd(seq_along(value), dim(value))
  codes <- do.call(cbind, lapply(seq_along(axes), function(a) axes[[a]]$grid[index[, a], , drop = FALSE]))
  colnames(codes) <- unlist(lapply(axes, function(axis) axis$shown))
  codes <- codes[, variables, drop = FALSE]
  out <- lapply(variables, function(name) {
    release$categories$label[release$categories$variable == name][codes[, name] + 1]
  })
  out <- data.frame(out, estimate = as.vector(value), standard_error = as.vector(error), stringsAsFactors = FALSE)
  names(out)[seq_along(variables)] <- variables
  out <- out[do.call(order, as.data.frame(codes)), ]
  rownames(out) <- NULL
  out
}
