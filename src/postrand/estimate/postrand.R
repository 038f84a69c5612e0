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
# Of the variables of a split, the records count that show all that are asked (r_split.csv has the subsets).
#
# Rows of a matrix are the true categories, columns the released ones. Estimates are unbiased, so they can lie outside
# [0, 1]. Standard errors include sampling and perturbation. Of rare cells, plus or minus two of them covers too little:
# 'postrand estimate' has intervals.

# Variables of which all records of a person or of a household share one draw, with what that does to standard errors.
postrand_shared <- @shared@
# Whether the release records a survey design; codebook.json names its columns.
postrand_design <- @design@

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
    letters <- if (is.double(x)) haven::na_tag(x) else rep(NA_character_, length(x))
    labels <- attr(x, "labels")
    blank <- labels[names(labels) == "(not released)"]
    labels <- labels[names(labels) != "(not released)"]
    if (inherits(x, "haven_labelled")) attributes(x) <- NULL
    if (is.character(x)) x[!nzchar(x)] <- NA
    hidden <- if (!length(blank)) FALSE else if (is.na(blank)) letters %in% haven::na_tag(blank) else x %in% c(blank)
    if (all(is.na(letters)) && !any(hidden)) return(x)
    as_text <- function(x) {
      if (is.character(x)) return(x)
      ifelse(is.na(x), NA, ifelse(!is.na(x) & x == floor(x), sprintf("%.0f", x), as.character(x)))
    }
    text <- ifelse(is.na(letters), as_text(x), paste0(".", letters))
    text[hidden] <- "(not released)"
    # Stata numbers categories that are text: which variables these are is in r_categories.csv.
    if (any(hidden) && is.double(x)) attr(text, "numbered") <- stats::setNames(names(labels), as_text(as.numeric(labels)))
    text
  })
  frame
}

postrand_read <- function(dir = ".") {
  if (postrand_design) warning("the release records a survey design (codebook.json names its columns), and postrand_table does not use it: weights count only where weights = names them, and standard errors count no clusters, strata or replicate weights. Use postrand estimate, or the R package postrand", call. = FALSE)
  read <- function(name) {
    read.csv(file.path(dir, name), colClasses = "character", check.names = FALSE, encoding = "UTF-8", na.strings = NULL)
  }
  law_of <- function(name) {
    x <- read(name)
    k <- nrow(x)
    held <- seq_len(ncol(x) - k)
    matrix_of <- function(columns) matrix(as.numeric(as.matrix(x[, columns, drop = FALSE])), nrow = k)
    list(variables = names(x)[held], cells = matrix_of(held), law = matrix_of(-held))
  }
  blocks <- lapply(list.files(dir, "^r_matrix_[0-9]+[.]csv$"), law_of)
  split <- list()
  household <- NULL
  if (file.exists(file.path(dir, "r_split.csv"))) {
    rows <- read("r_split.csv")
    split <- lapply(split(rows, as.numeric(rows$subset)), function(x) {
      law <- if (x$stays[1] == "") law_of(sprintf("r_subset_%s.csv", x$subset[1]))
      list(shown = x$variable, stays = as.numeric(x$stays[1]), moves = as.numeric(x$moves[1]), law = law)
    })
    household <- rows$household[1]
  }
  list(categories = read("r_categories.csv"), blocks = blocks, split = split, household = household)
}

postrand_table <- function(data, variables, release, weights = NULL) {
  axes <- postrand_axes(variables, release)
  cells <- lapply(axes, function(axis) {
    if (is.null(axis$parts)) postrand_cells(axis, data, release) else postrand_split_cells(axis, data, release)
  })
  complete <- Reduce(`&`, lapply(cells, function(cell) !is.na(cell)))
  if (!any(complete)) stop("no record has values of all variables of the table")
  split <- Filter(function(axis) !is.null(axis$parts), axes)
  w <- postrand_weights(weights, data)[complete]
  if (length(split)) w <- w * split[[1]]$weight[cells[[which(!vapply(axes, function(a) is.null(a$parts), TRUE))]][complete]]
  of_members <- length(split) && !is.null(release$household)
  if (of_members) w <- w * postrand_members(data, release)[complete] else postrand_warn(variables)
  operators <- lapply(axes, function(axis) if (is.null(axis$parts)) axis$show %*% solve(t(axis$law)) else axis$operator)
  sizes <- vapply(operators, ncol, 1)
  index <- rep(1, length(w))
  for (a in seq_along(axes)) index <- index + (cells[[a]][complete] - 1) * prod(sizes[seq_len(a - 1)])
  summed <- function(x) {
    total <- rowsum(x, index)
    counts <- array(0, sizes)
    counts[as.numeric(rownames(total))] <- total
    counts
  }
  squares <- lapply(operators, function(b) b^2)
  n <- length(w)
  value <- postrand_apply(operators, summed(w)) / sum(w)
  square <- w^2
  if (length(split) && is.null(weights) && !of_members) {  # exactly unbiased, subsets having unequal weights
    if (max(w) >= sum(w) / 2) stop("too few records show every variable of the table")
    square <- (w / sum(w))^2 / (1 - 2 * w / sum(w))
    square <- sum(w)^2 * square / (1 + sum(square)) * (n - 1) / n
  }
  cross <- postrand_apply(operators, summed(square))
  spread <- postrand_apply(squares, summed(square)) - 2 * value * cross + sum(square) * value^2
  error <- sqrt(pmax(n / (n - 1) * spread, 0)) / sum(w)
  postrand_frame(axes, variables, release, value, error)
}

# Warn of variables whose draws are shared: the records that count for a split of households share none.
postrand_warn <- function(variables) {
  for (unit in postrand_shared) {
    held <- intersect(unit$variables, variables)
    if (length(held)) warning(sprintf(unit$said, paste(held, collapse = ", ")), call. = FALSE)
  }
}

# The number of records of each one's household, where one random member of each shows something of the split: that
# member stands for all. A record without a household number is a household of its own.
postrand_members <- function(data, release) {
  house <- data[[release$household]]
  if (is.null(house)) stop("the data do not have a column '", release$household, "'")
  alone <- is.na(house)
  key <- ifelse(alone, paste("alone", seq_along(house)), paste("house", format(house, digits = 17, trim = TRUE)))
  partly <- unique(unlist(lapply(release$split, function(subset) subset$shown)))
  shows <- Reduce(`|`, lapply(partly, function(name) !postrand_hidden(name, data, release)))
  if (any(rowsum(1 * shows, key) != 1)) stop("not every household has one member that shows something: use all records of the release")
  as.numeric(table(key)[key])
}

# Whether records do not show a variable of the split.
postrand_hidden <- function(name, data, release) {
  if (is.null(data[[name]])) stop("the data do not have a column '", name, "'")
  known <- release$categories$value[release$categories$variable == name]
  as.character(data[[name]]) %in% c("(not released)", setdiff(c(".n", ".N"), known))
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
    partly <- unique(unlist(lapply(release$split, function(subset) subset$shown)))
    if (name %in% partly) {
      axes <- c(axes, list(postrand_split_axis(variables[variables %in% partly], release)))
      next
    }
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

# One axis for the variables of a split: the released cells are those of each subset that shows them, one after the
# other; `weight` is that of a record in each, one over the summed variance of what it adds, all cells being alike.
postrand_split_axis <- function(shown, release) {
  size <- function(names) prod(vapply(names, function(v) sum(release$categories$variable == v), 1))
  codes <- lapply(shown, function(v) seq_len(size(v)) - 1)
  grid <- as.matrix(expand.grid(codes))
  parts <- lapply(names(release$split), function(number) {
    subset <- release$split[[number]]
    if (!all(shown %in% subset$shown)) return(NULL)
    if (is.null(subset$law)) {
      held <- size(subset$shown) / nrow(grid)
      add <- (diag(nrow(grid)) - held * subset$moves) / (subset$stays - subset$moves)
      law <- diag(nrow(grid)) * (subset$stays - subset$moves) + held * subset$moves
      share <- rep(1 / nrow(grid), nrow(grid))
      squared <- mean(law %*% rowSums(add^2))
    } else {
      key <- function(m) apply(m, 1, paste, collapse = " ")
      at <- subset$law$cells[, match(shown, subset$law$variables), drop = FALSE]
      show <- 1 * outer(key(grid), key(at), "==")
      add <- solve(subset$law$law, t(show))
      share <- rowSums(show) / ncol(show)
      squared <- mean(subset$law$law %*% rowSums(add^2))
    }
    c(subset, list(add = add, precision = 1 / (squared - sum(share^2))))
  })
  parts <- Filter(Negate(is.null), parts)
  if (!length(parts)) stop("no record shows all of ", paste(shown, collapse = ", "), ": ask for fewer variables")
  list(
    variables = shown, shown = shown, grid = grid, cells = grid, parts = parts,
    operator = t(do.call(rbind, lapply(parts, function(part) part$add))),
    weight = unlist(lapply(parts, function(part) rep(part$precision, nrow(part$add))))
  )
}

# The released cell of each record on the axis of a split; NA if it does not show all variables, or misses one.
postrand_split_cells <- function(axis, data, release) {
  partly <- unique(unlist(lapply(release$split, function(subset) subset$shown)))
  hidden <- vapply(partly, postrand_hidden, logical(nrow(data)), data, release)
  for (name in partly) {
    given <- data[[name]]
    kind <- release$categories$type[release$categories$variable == name][1]
    if (kind == "text" && !is.null(attr(given, "numbered"))) data[[name]] <- unname(attr(given, "numbered")[c(given)])
    if (kind == "logical") data[[name]] <- c("0" = "false", "1" = "true")[tolower(as.character(given))]
    if (kind == "logical") data[[name]] <- ifelse(is.na(data[[name]]), tolower(as.character(given)), data[[name]])
  }
  hidden <- matrix(hidden, nrow = nrow(data), dimnames = list(NULL, partly))
  cell <- rep(NA_real_, nrow(data))
  start <- 0
  for (part in axis$parts) {
    mine <- which(apply(hidden, 1, function(x) setequal(partly[!x], part$shown)))
    own <- if (is.null(part$law)) list(variables = axis$variables, cells = axis$cells) else part$law
    if (length(mine)) cell[mine] <- start + postrand_cells(own, data[mine, , drop = FALSE], release)
    start <- start + nrow(part$add)
  }
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
