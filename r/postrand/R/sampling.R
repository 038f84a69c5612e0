# How records were drawn. Without clusters and without a recorded design they are independent draws, within strata;
# `kind` is then "records". With either, `kind` is "units": variances are those of sums by primary sampling unit.

sampling_of <- function(release, weights, strata, psu, recorded) {
  survey <- if (recorded && is.null(psu)) release$survey
  unknown <- setdiff(names(survey), c("weights", "strata", "psu", "not_released", "cluster_effect"))
  if (length(unknown)) {
    refuse(paste0("the release records a survey design with ", paste(unknown, collapse = ", "),
                  ", which this package does not use for corrected estimates"),
           "use 'postrand estimate', or state the design by weights, strata and psu, with recorded = FALSE")
  }
  named <- list(weights = weights %or% survey[["weights"]], strata = strata %or% survey[["strata"]],
                psu = psu %or% survey[["psu"]])
  for (part in names(named)) if (!is.null(named[[part]])) require_as_is(release, named[[part]], part)
  w <- if (is.null(named$weights)) rep(1, release$records) else weights_at(release, named$weights)
  kind <- if (length(survey) || !is.null(psu)) "units" else "records"
  stratum <- if (is.null(named$strata)) rep(0, release$records) else group_at(release, named$strata, kind == "units")
  found <- list(kind = kind, weights = w, weighted = !is.null(named$weights), stratum = stratum, psu = named$psu,
                effect = survey[["cluster_effect"]] %or% 1)
  if (kind == "records") return(found)
  own <- if (is.null(named$psu)) seq_len(release$records) else group_at(release, named$psu, TRUE)
  found$unit <- distinct(list(stratum, own), release$records) + 1
  found$unit_stratum <- stratum[match(seq_len(max(found$unit)), found$unit)]
  counts <- table(found$unit_stratum)
  if (any(counts == 1)) {
    refuse("a stratum has only one primary sampling unit, so that its variance is not known", "merge strata",
           quoted(named$strata %or% named$psu))
  }
  found$freedom <- length(found$unit_stratum) - length(counts)
  found
}

require_as_is <- function(release, name, part) {
  require_known(release, name)
  if (name %in% c(release$perturbed, names(release$ranked))) {
    refuse(paste0("the column of ", part, " is perturbed in this release"),
           "use a column that is released as it is, or none", quoted(name))
  }
}

weights_at <- function(release, name) {
  refuse_identifiers(release, name)
  w <- release$data[[name]]
  if (!is.numeric(w) || any(!is.finite(w)) || any(w < 0) || all(w == 0)) {
    refuse("weights must be finite numbers, not negative and not all zero", "use another column", quoted(name))
  }
  w
}

group_at <- function(release, name, complete) {
  column <- release$data[[name]]
  if (complete && anyNA(column)) {
    refuse("the survey design is missing for some records", "use a column without missing values", quoted(name))
  }
  match(column, unique(column)) - 1
}

# Records in the axes: `kept` rows, their `places` on each axis, weight, group of the variance; and how many were left
# out.
gathered <- function(release, axes, sampling, present = TRUE) {
  weight <- NULL
  for (axis in axes) {
    present <- present & !is.na(axis$place)
    if (!is.null(axis$weight)) weight <- axis$weight
  }
  kept <- which(rep_len(present, release$records))
  if (!length(kept)) refuse("no record has values of all variables that are asked", "check the data and the variables")
  share <- rep(1, length(kept))
  if (!is.null(weight)) {
    strata <- if (sampling$kind == "records") sampling$stratum else rep(0, release$records)
    shown <- rowsum(weight, strata)
    if (any(shown == 0)) refuse("no record of a stratum shows all variables that are asked", "merge strata")
    ratio <- as.numeric(table(factor(strata, rownames(shown)))) / shown[, 1]
    share <- weight[kept] * ratio[match(strata[kept], rownames(shown))]
  }
  group <- if (sampling$kind == "units") sampling$unit[kept] else {
    match(sampling$stratum[kept], sort(unique(sampling$stratum[kept])))
  }
  if (sampling$kind == "records" && any(tabulate(group) < 2)) {
    refuse("a stratum or table of a single record has no variance estimate", "merge strata")
  }
  covering <- if (is.null(weight)) release$records else sum(weight > 0)
  list(kept = kept, places = lapply(axes, function(axis) axis$place[kept]), weight = sampling$weights[kept] * share,
       group = group, split = !is.null(weight), dropped = covering - length(kept),
       names = unlist(lapply(axes, function(axis) axis$names)))
}

# One row for each distinct case of the records: the same released cells, group, and further values.
cases_of <- function(records, ...) {
  n <- length(records$kept)
  number <- distinct(c(records$places, list(records$group, records$weight), list(...)), n) + 1
  first <- match(seq_len(max(number)), number)
  list(first = first, count = tabulate(number), group = records$group[first], weight = records$weight[first],
       places = lapply(records$places, function(place) place[first]))
}

# Deviations of influences u (cases, estimates), so that crossprod() of them is the covariance.
deviations <- function(u, cases, sampling) {
  sums <- rowsum(u * cases$count, cases$group)
  if (sampling$kind == "units") {
    totals <- matrix(0, length(sampling$unit_stratum), ncol(u))
    totals[as.numeric(rownames(sums)), ] <- sums
    stratum <- match(sampling$unit_stratum, unique(sampling$unit_stratum))
    many <- tabulate(stratum)
    means <- rowsum(totals, stratum, reorder = TRUE) / many
    return(sqrt(sampling$effect * many / (many - 1))[stratum] * (totals - means[stratum, , drop = FALSE]))
  }
  n <- as.numeric(rowsum(cases$count, cases$group))
  at <- match(cases$group, as.numeric(rownames(sums)))
  sqrt(cases$count * (n / (n - 1))[at]) * (u - (sums / n)[at, , drop = FALSE])
}

# Records of one person or household can share a draw: then they are not independent, unless units hold whole
# households.
shared_warnings <- function(release, variables, sampling) {
  if (release$members && any(variables %in% release$partly)) return(character())
  found <- character()
  for (unit in c("person", "household")) {
    blocks <- Filter(function(block) block$unit == unit, release$blocks)
    held <- intersect(unique(unlist(lapply(blocks, function(block) block$perturbed))), variables)
    if (length(held) && !(unit == "household" && holds_households(release, sampling))) {
      found <- c(found, sprintf(paste(
        "All records of a %s share one draw of: %s. Figures of these variables that take the draws of different",
        "records as independent are wrong: standard errors, intervals and p-values are too small. psu = a column of",
        "households gives right ones, for households."), unit, paste(held, collapse = ", ")))
    }
  }
  found
}

holds_households <- function(release, sampling) {
  house <- release$data[[release$household %or% ""]]
  if (sampling$kind != "units" || is.null(house)) return(FALSE)
  there <- !is.na(house)
  first <- match(house[there], house[there])
  all(sampling$unit[there] == sampling$unit[there][first])
}
