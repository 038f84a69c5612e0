# Categories of two covariates that seem to be the same records: their terms repeat one another at any epsilon.

SAME <- 0.1
SURE <- 3

# The pairs of categories, in words, that are estimated to be the same records: three at most, most records first. With
# the corrected weights a and b, and ab of both together, the records in one alone, sum a + b - 2ab, are at most SAME of
# those in both, sum ab, or two of their standard errors; and those in both are SURE of their own.
repeats <- function(grid, release) {
  held <- categories_of(grid, release)
  found <- data.frame(said = character(), both = numeric())
  for (i in seq_along(held)) for (j in seq_len(i - 1)) {
    if (held[[i]]$name == held[[j]]$name) next
    a <- category_weights(grid, held[[j]])
    b <- category_weights(grid, held[[i]])
    ab <- together(grid, held[[j]], held[[i]])
    both <- total_in(grid, ab)
    alone <- total_in(grid, a + b - 2 * ab)
    same <- both[1] > SURE * both[2] && alone[1] <= max(SAME * both[1], 0) &&
      alone[1] >= -max(2 * alone[2], SAME * both[1])
    if (same) found[nrow(found) + 1, ] <- list(paste(held[[j]]$said, "and", held[[i]]$said), both[1])
  }
  utils::head(found$said[order(-found$both)], 3)
}

SEEM <- "seem to be the same records, so that no epsilon tells their terms apart"
APART <- paste("leave one of the two variables out, or merge one of the two categories with another before a release",
               "([[recodes]] in codebook.toml; missing_codes do not help)")

# The same as a warning; NULL without pairs.
repeats_note <- function(grid, release) {
  pairs <- repeats(grid, release)
  if (length(pairs)) paste0(paste(pairs, collapse = "; "), " ", SEEM, ": ", APART, ".")
}

# Each category of a covariate that a formula compares: of which true cells of a factor, or of which cases, it is.
categories_of <- function(grid, release) {
  found <- list()
  for (name in grid$compared) {
    at <- which(vapply(grid$factors, function(f) name %in% f$names, TRUE))
    own <- if (length(at)) grid$factors[[at]]$codes[, match(name, grid$factors[[at]]$names)] else {
      release$codes[[name]][grid$kept][grid$cases$first]
    }
    counted <- setdiff(sort(unique(own)), if (length(at)) release$absent[[name]])
    found <- c(found, lapply(counted, function(code) {
      said <- paste(name, "=", release$variables[[name]]$labels[code + 1])
      list(name = name, code = code, said = said, at = at, held = 1 * (own == code))
    }))
  }
  found
}

# The weight of each case in a category, or in two categories together, as one that answers the response. Draws of two
# factors are independent.
category_weights <- function(grid, one) weighed(grid, one, one$held, answering_of(grid))

together <- function(grid, one, other) {
  if (identical(one$at, other$at)) return(weighed(grid, one, one$held * other$held, answering_of(grid)))
  found <- weighed(grid, one, one$held, 1) * weighed(grid, other, other$held, 1)
  if (answers_with(grid, one) || answers_with(grid, other)) found else found * answering_of(grid)
}

weighed <- function(grid, one, held, answering) {
  if (!length(one$at)) return(held * answering)
  found <- rowSums(grid$factors[[one$at]]$weights[, held > 0, drop = FALSE])[grid$cases$places[[one$at]]]
  if (answers_with(grid, one)) found else found * answering
}

# Whether the response is on the factor of a category, whose weights then answer it.
answers_with <- function(grid, one) length(one$at) > 0 && !is.null(grid$factors[[one$at]]$times_y)

# The total of a weight of every case, and its standard error.
total_in <- function(grid, each) {
  each <- grid$cases$weight * each
  c(sum(grid$cases$count * each), sqrt(sum(grid$cases$count * each^2)))
}
