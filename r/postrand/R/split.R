# The axis of a split: of all records those count that show the variables asked, whichever subset they show. The
# released cells are those of each part one after the other;
# a record has the weight of its subset, one over the variance of what
# it adds if all true cells are alike. Released values never decide weights: that would bias the estimate.

ALIKE <- 1e-12

split_axis <- function(release, shown) {
  covering <- Filter(function(k) all(shown %in% release$subsets[[k]]$perturbed), seq_along(release$subsets))
  if (!length(covering)) refuse_apart(release, shown)
  sizes <- sizes_of(release, shown)
  listed <- lapply(covering, function(k) {
    block <- release$subsets[[k]]
    if (!is.null(block$cells)) ravel(block$cells[, match(shown, block$variables), drop = FALSE], sizes)
  })
  whole <- any(vapply(listed, is.null, TRUE))
  feasible <- if (whole) seq_len(prod(sizes)) - 1 else sort(unique(unlist(listed)))
  parts <- Map(function(k, at) {
    part_of(release, k, shown, if (is.null(at)) NULL else match(at, feasible), length(feasible))
  }, covering, listed)
  known <- Filter(function(part) part$exact, parts)
  parts <- if (length(known)) known else parts
  axis <- list(names = shown, cells = all_cells(sizes)[feasible + 1, , drop = FALSE], kept = shown, sizes = sizes,
               looks = unlist(lapply(parts, function(part) part$looks)), split = TRUE)
  axis$inverse <- list(values = do.call(rbind, lapply(parts, function(part) part$values)),
                       exact = all(vapply(parts, function(part) part$exact, TRUE)))
  c(axis, split_places(release, axis, parts))
}

refuse_apart <- function(release, shown) {
  together <- unique(lapply(release$subsets, function(one) shown[shown %in% one$perturbed]))
  largest <- Filter(function(one) length(one) && !any(vapply(together, function(other) {
    all(one %in% other) && length(other) > length(one)
  }, TRUE)), together)
  named <- paste(vapply(largest, paste, "", collapse = ", "), collapse = "; ")
  refuse(paste0("no record shows all of ", quoted(shown)),
         paste0("ask for what records show together (", named, "), or use completed files: as_imputations()"))
}

# What records of one subset add to the cells asked: `values` (released cells, cells asked).
part_of <- function(release, place, shown, true, size) {
  block <- release$subsets[[place]]
  if (!is.null(block$pair) && is.null(true)) {
    held <- prod(sizes_of(release, block$variables)) / size
    return(response_part(place, block$pair, rep(held, size), rep(1 / size, size)))
  }
  if (is.null(true)) {
    cells <- all_cells(sizes_of(release, block$variables))
    true <- ravel(cells[, match(shown, block$variables), drop = FALSE], sizes_of(release, shown)) + 1
  }
  held <- tabulate(true, size)
  shares <- held / length(true)
  if (!is.null(block$pair) && !length(block$given)) return(response_part(place, block$pair, held, shares))
  general_part(law_of(block), place, true, shares)
}

# Randomised response, M = s I + 1 n', on the cells asked; `held` cells of the subset are in each of these.
response_part <- function(place, pair, held, shares) {
  stays <- pair$diagonal - pair$off
  exists <- 1 * (held > 0)
  noise <- outer(exists, held * pair$off)
  law <- diag(stays * exists, length(held)) + noise
  finish(place, law, (diag(exists, length(held)) - noise) / stays, shares, seq_along(held), TRUE, stays > 0)
}

general_part <- function(law, place, true, shares) {
  size <- length(shares)
  wanted <- 1 * outer(true, seq_len(size), "==")
  reached <- law %*% wanted
  first <- match(seq_len(size), true)
  exists <- !is.na(first)
  closed <- reached[ifelse(exists, first, 1), , drop = FALSE] * exists
  if (max(abs(reached - closed[true, , drop = FALSE])) <= ALIKE) {
    found <- inverse_of(closed[exists, exists, drop = FALSE])
    values <- matrix(0, size, size)
    values[exists, exists] <- found$values
    return(finish(place, closed, values, shares, seq_len(size), TRUE, found$exact))
  }
  found <- inverse_of(law)
  values <- found$values %*% wanted
  exact <- found$exact || max(abs(law %*% values - wanted)) <= 1e-9
  average <- crossprod(wanted / tabulate(true, size)[true], law)
  finish(place, average, values, shares, true, FALSE, exact)
}

finish <- function(place, law, values, shares, looks, closed, exact) {
  squared <- sum((shares %*% law) * rowSums(values^2))
  list(place = place, values = values, looks = looks, closed = closed, exact = exact,
       precision = if (exact) 1 / max(squared - sum(shares^2), 1e-300) else 1)
}

# The released cell of each record, NA where it has none, and the weight of its subset, 0 where it does not show all.
split_places <- function(release, axis, parts) {
  codes <- codes_on(release, release$partly)
  bits <- 2^(seq_along(release$partly) - 1)
  pattern <- (is.na(codes) | codes >= 0) %*% bits
  masks <- vapply(release$subsets, function(one) sum(bits[release$partly %in% one$perturbed]), 1)
  subset <- match(pattern, masks)
  if (any(is.na(subset) & !(release$members & pattern == 0))) {
    refuse("a record shows a set of variables that is no subset of the split",
           "give all columns of the release, unchanged")
  }
  place <- rep(NA_real_, release$records)
  weight <- rep(0, release$records)
  start <- 0
  for (part in parts) {
    mine <- which(subset == part$place)
    weight[mine] <- part$precision
    if (length(mine)) place[mine] <- start + cells_in(release, release$subsets[[part$place]], axis, part, mine)
    start <- start + nrow(part$values)
  }
  if (release$members) weight <- weight * household_sizes(release, pattern > 0)
  list(place = place, weight = weight / max(weight, 1e-300))
}

cells_in <- function(release, block, axis, part, mine) {
  at <- function(names, cells) {
    codes <- codes_on(release, names)[mine, , drop = FALSE]
    sizes <- sizes_of(release, names)
    match(ravel(codes, sizes), ravel(cells %or% all_cells(sizes), sizes), incomparables = NA)
  }
  whole <- at(block$variables, block$cells)
  full <- !is.na(rowSums(codes_on(release, block$variables)[mine, , drop = FALSE]))
  if (any(is.na(whole) & full)) {
    refuse("the data contain a combination that is never released", "give the data of this release",
           quoted(block$variables))
  }
  if (part$closed) ifelse(full, at(axis$names, axis$cells), NA) else whole
}

# The number of records of each one's household, where one random member of each shows something and stands for all.
household_sizes <- function(release, shown) {
  house <- release$data[[release$household]]
  if (is.null(house)) refuse("the release has no column of household numbers", "use all columns of the release")
  key <- ifelse(is.na(house), -seq_along(house), match(house, house))
  showing <- rowsum(1 * shown, key)
  if (any(showing != 1)) {
    refuse("not every household has one member that shows something", "give all records of the release",
           quoted(release$household))
  }
  as.numeric(table(key)[as.character(key)])
}
