# Unbiased tables from a release, in base R alone.
#
#   source("postrand.R")
#   release <- postrand_read(".")                       # r_categories.csv and r_matrix_*.csv lie there
#   data <- read.csv("data.csv", colClasses = "character", na.strings = "")
#   postrand_table(data, c("sex", "region"), release)
#   postrand_table(data, "sex", release, weights = "weight")
#
# Rows of a matrix are the true categories, columns the released ones. Estimates are unbiased, so they may lie outside
# [0, 1]. Standard errors hold sampling and perturbation.

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
  w <- if (is.null(weights)) rep(1, nrow(data)) else as.numeric(data[[weights]])
  w <- w[complete]
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

# One axis for each block, or single clear variable, that the table needs; `show` sums its cells into what is shown.
postrand_axes <- function(variables, release) {
  axes <- list()
  for (name in variables) {
    if (any(vapply(axes, function(axis) name %in% axis$variables, TRUE))) next
    held <- Filter(function(block) name %in% block$variables, release$blocks)
    axis <- if (length(held)) held[[1]] else {
      size <- sum(release$categories$variable == name)
      if (size == 0) stop("no categories for variable '", name, "' in r_categories.csv")
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

# The cell of each record on an axis; NA where a variable is missing that is released as missing.
postrand_cells <- function(axis, data, release) {
  codes <- vapply(axis$variables, function(name) {
    known <- release$categories[release$categories$variable == name, ]
    given <- data[[name]]
    if (is.null(given)) stop("the data have no column '", name, "'")
    as_key <- switch(known$type[1], number = as.numeric, logical = function(x) tolower(as.character(x)), as.character)
    values <- known$missing != "yes"
    code <- match(as_key(given), as_key(known$value[values])) - 1
    if (any(is.na(code) & !is.na(given))) stop("variable '", name, "' has a value that is not in r_categories.csv")
    if (any(!values)) code[is.na(given)] <- sum(values)
    code
  }, numeric(nrow(data)))
  codes <- matrix(codes, nrow = nrow(data))
  cell <- match(apply(codes, 1, paste, collapse = " "), apply(axis$cells, 1, paste, collapse = " "))
  if (any(is.na(cell) & !apply(is.na(codes), 1, any))) stop("the data hold a combination that is never released")
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
