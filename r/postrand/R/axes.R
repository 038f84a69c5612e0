# A released table has one axis for each whole block and each unperturbed variable. Codes and cells count from 0 in
# codebook order, and the last variable of an axis or a table is the fastest, as in the release.
#
# An axis: `names`; `cells`, the codes of each true cell; `kept`, the names that the table shows, with `sizes`; `law`
# and its `inverse`, NULL if nothing perturbs it;
# `place`, the released cell (1, 2, ...) of each record, NA where it has none;
# `looks`, the true cell that each released one looks like.

MAX_CONDITION <- 1e12
IDENTIFIED <- 1e-8

all_cells <- function(sizes) {
  if (!length(sizes)) return(matrix(0, 1, 0))
  codes <- as.matrix(expand.grid(rev(lapply(sizes, function(size) seq_len(size) - 1))))
  unname(codes[, rev(seq_along(sizes)), drop = FALSE])
}

# The number, from 0, of each row of codes among all combinations.
ravel <- function(codes, sizes) {
  found <- rep(0, nrow(codes))
  for (j in seq_along(sizes)) found <- found * sizes[j] + codes[, j]
  found
}

sizes_of <- function(release, names) vapply(names, function(name) as.numeric(release$variables[[name]]$size), 1)

codes_on <- function(release, names) {
  matrix(vapply(names, function(name) release$codes[[name]], numeric(release$records)), release$records)
}

require_known <- function(release, names) {
  for (name in names) {
    if (is.null(release$data[[name]])) {
      made <- Filter(function(one) identical(one$from, name), release$recodes)
      made <- vapply(made, function(one) one$variable, "")
      if (length(made)) {
        refuse(paste0("the release has no column ", quoted(name), ": it was recoded into ",
                      paste(made, collapse = " and ")), paste("ask for", paste(made, collapse = " or ")))
      }
      refuse(paste0("the release has no column ", quoted(name)),
             paste("use one of", paste(names(release$data), collapse = ", ")))
    }
  }
}

# Numbers of households and records say nothing by themselves; as psu they are used.
refuse_identifiers <- function(release, names) {
  for (name in names) {
    told <- switch(release$variables[[name]]$role %or% "", household = "which records belong together",
                   record_key = "records apart")
    if (is.null(told)) next
    use <- if (told != "records apart") "; as psu it can name the clusters of a survey design"
    refuse(paste0("the numbers of ", name, " only tell ", told, ", and nothing can be estimated from them"),
           paste0("leave ", name, " out", use))
  }
}

require_categories <- function(release, names) {
  require_known(release, names)
  refuse_identifiers(release, names)
  for (name in names) {
    if (name %in% names(release$ranked)) refuse_ranked(name)
    if (is.null(release$codes[[name]])) {
      refuse(paste0(quoted(name), " has no categories in the codebook"), "ask for its mean: release_mean()")
    }
  }
}

refuse_ranked <- function(name) {
  refuse(paste0(quoted(name), " was released by a rank law, and no estimate can be corrected for it"),
         "leave it out; its unweighted mean over all records is correct as released")
}

# The axes that a table of these variables needs, in the order in which they are first named.
axes_of <- function(release, variables) {
  if (anyDuplicated(variables)) refuse("a variable is named twice", "name each variable once", quoted(variables))
  require_categories(release, variables)
  home <- home_of(release, variables)
  lapply(unique(home), function(key) {
    shown <- variables[home == key]
    if (key == "split") return(split_axis(release, shown))
    number <- suppressWarnings(as.numeric(key))
    block_axis(release, if (is.na(number)) list(variables = shown) else release$blocks[[number]], shown)
  })
}

# Where each variable is: the block that perturbs it, one of these that reads it, the split, or nowhere but itself.
home_of <- function(release, variables) {
  changes <- function(name) which(vapply(release$blocks, function(block) name %in% block$perturbed, TRUE))
  home <- vapply(variables, function(name) {
    if (name %in% release$partly) "split" else if (length(changes(name))) as.character(changes(name)[1]) else ""
  }, "")
  used <- setdiff(unique(home), c("", "split"))
  for (i in which(home == "")) {
    reads <- Filter(function(key) variables[i] %in% release$blocks[[as.numeric(key)]]$variables, used)
    home[i] <- if (length(reads)) reads[1] else paste("clear", variables[i])
  }
  home
}

block_axis <- function(release, block, shown) {
  require_categories(release, block$variables)
  sizes <- sizes_of(release, block$variables)
  cells <- block$cells %or% all_cells(sizes)
  law <- if (length(block$perturbed)) law_of(block)
  codes <- codes_on(release, block$variables)
  at <- ravel(codes, sizes)
  place <- match(at, ravel(cells, sizes), incomparables = NA)
  if (any(is.na(place) & !is.na(at))) {
    refuse("the data contain a combination that is never released", "give the data of this release",
           quoted(block$variables))
  }
  kept <- block$variables[block$variables %in% shown]
  list(names = block$variables, cells = cells, kept = kept, sizes = sizes_of(release, kept), law = law,
       inverse = if (!is.null(law)) inverse_of(law), place = place, looks = seq_len(nrow(cells)))
}

# The inverse, or where there is none in double precision the pseudo-inverse.
inverse_of <- function(law) {
  found <- tryCatch(solve(law, tol = 0), error = function(e) NULL)
  exact <- !is.null(found) && isTRUE(norm(law, "1") * norm(found, "1") <= MAX_CONDITION)
  if (exact) return(list(values = found + found %*% (diag(nrow(law)) - law %*% found), exact = TRUE))
  parts <- svd(law)
  good <- parts$d > 1e-12 * parts$d[1]
  list(values = parts$v[, good, drop = FALSE] %*% (t(parts$u[, good, drop = FALSE]) / parts$d[good]), exact = FALSE)
}

# One column for each combination of the kept variables, 1 where a true cell has it: (cells, combinations).
shows <- function(axis) {
  if (!length(axis$kept)) return(matrix(1, nrow(axis$cells), 1))
  at <- ravel(axis$cells[, match(axis$kept, axis$names), drop = FALSE], axis$sizes)
  1 * outer(at, seq_len(prod(axis$sizes)) - 1, "==")
}

# b of each released cell (rows) with M b = 1[combination] x f, f a number for each true cell.
operator_of <- function(axis, f = NULL, must_be_exact = FALSE) {
  wanted <- shows(axis)
  if (!is.null(f)) wanted <- wanted * f
  solved(axis, wanted, must_be_exact)
}

solved <- function(axis, wanted, must_be_exact = FALSE) {
  if (is.null(axis$inverse)) return(wanted)
  found <- axis$inverse$values %*% wanted
  if (axis$inverse$exact) return(found)
  if (must_be_exact || is.null(axis$law) ||
      max(abs(axis$law %*% found - wanted)) > IDENTIFIED * max(abs(wanted), 1e-300)) {
    refuse("the release does not tell these categories apart: a transition matrix is singular",
           "merge categories, or leave the variable out", quoted(axis$names))
  }
  found
}

# Products of the operators' rows: one row for each case, the first axis the slowest.
contributions <- function(operators, places, cases) {
  found <- matrix(1, cases, 1)
  for (a in seq_along(operators)) {
    own <- operators[[a]][places[[a]], , drop = FALSE]
    left <- rep(seq_len(ncol(found)), each = ncol(own))
    found <- found[, left, drop = FALSE] * own[, rep(seq_len(ncol(own)), ncol(found)), drop = FALSE]
  }
  found
}

# The combinations of all axes as codes of `variables`, and the order in which a table shows them.
combinations <- function(axes, variables) {
  kept <- unlist(lapply(axes, function(axis) axis$kept))
  sizes <- unlist(lapply(axes, function(axis) axis$sizes))
  codes <- all_cells(sizes)[, match(variables, kept), drop = FALSE]
  order <- if (length(variables)) do.call(order, as.data.frame(codes)) else 1
  list(codes = codes[order, , drop = FALSE], order = order)
}

labels_at <- function(release, codes, variables) {
  found <- lapply(seq_along(variables), function(j) {
    v <- release$variables[[variables[j]]]
    factor(codes[, j] + 1, seq_len(v$size), make.unique(v$labels))
  })
  as.data.frame(stats::setNames(found, variables), optional = TRUE)
}
