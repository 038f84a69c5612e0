release_share <- function(release, variable, of, among = NULL, by = NULL, weights = NULL, strata = NULL, psu = NULL,
                          recorded = TRUE) {
  if (length(variable) != 1 || variable %in% by) refuse("name one variable, which is not in by", "", quoted(variable))
  sampling <- sampling_of(release, weights, strata, psu, recorded)
  require_categories(release, variable)
  chosen <- chosen_of(release, variable, of, among)
  axes <- axes_of(release, c(by, variable))
  functions <- function(places) {
    lapply(axes, function(axis) {
      if (variable %in% axis$kept) 1 * (axis$cells[, match(variable, axis$names)] + 1) %in% places
    })
  }
  inside <- functions(chosen$of)
  around <- functions(chosen$among)
  axes <- lapply(axes, showing, release = release, names = by)
  records <- gathered(release, axes, sampling)
  cases <- cases_of(records)
  above <- Map(operator_of, axes, inside)
  below <- Map(operator_of, axes, around)
  require_room(length(cases$count) * prod(vapply(above, ncol, 1)))
  shown <- combinations(axes, by %or% character())
  found <- ratio_of(contributed(above, cases, shown), contributed(below, cases, shown), NULL, cases, sampling,
                    perturbed = any(vapply(axes, function(axis) !is.null(axis$inverse), TRUE)))
  labels <- labels_at(release, shown$codes, by %or% character())
  what <- paste0("Share of ", chosen$what, if (length(by)) paste0(" by ", paste(by, collapse = ", ")))
  estimate_of(release, labels, found$value, found$z, records, sampling, c(by, variable), what, found$interval,
              found$unclear, c(if (is.null(among)) absent_note(release, variable),
                               too_few(labels, found$unclear, partly = TRUE)))
}

# The places of the categories that are counted, and of those among which they are; and what the share is called.
chosen_of <- function(release, name, of, among) {
  v <- release$variables[[name]]
  inside <- places_of(v, of, name)
  around <- if (is.null(among)) sort(union(which(answered(v)), inside)) else places_of(v, among, name)
  beyond <- setdiff(inside, around)
  if (length(beyond)) {
    refuse(paste0("a share is of categories that are among the others, and these are not: ", toString(v$labels[beyond])),
           "name them in 'among' too", quoted(name))
  }
  among_these <- if (!is.null(among)) paste0(" among ", paste(v$labels[around], collapse = " or "))
  list(of = inside, among = around, what = paste0(name, " = ", paste(v$labels[inside], collapse = " or "), among_these))
}

# Where categories are that are named by their labels, or else by their codes.
places_of <- function(v, named, name) {
  codes <- if (v$kind == "logical") ifelse(v$categories, "True", "False") else as.character(v$categories)
  texts <- if (is.logical(named)) ifelse(named, "True", "False") else as.character(named)
  found <- match(texts, v$labels)
  found <- ifelse(is.na(found), match(texts, codes), found)
  if (!length(texts) || anyNA(found)) {
    what <- if (length(texts)) paste("no category", quoted(texts[is.na(found)][1])) else "no category is named"
    refuse(what, paste("use one of", toString(v$labels)), quoted(name))
  }
  sort(unique(found))
}
