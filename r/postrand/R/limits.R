# Limits of recoded numbers, such as 30 for 30 and more, that a result takes for numbers.

# A sentence for each of these variables that has such limits; `what` is calculated from them.
limit_warnings <- function(release, names, what) {
  told <- lapply(Filter(function(one) one$variable %in% names, release$recodes), function(recode) {
    limits <- limits_of(recode)
    if (!nrow(limits)) return(NULL)
    stands <- paste(spelt(limits$at), "stands for", spelt(limits$at), "and", limits$word, collapse = ", ")
    effect <- "; that of the true numbers can differ"
    if (what == "mean" && nrow(limits) == 1) {
      effect <- if (limits$word == "more") ", too low if true numbers are higher" else
        ", too high if true numbers are lower"
    }
    ends <- paste(ifelse(limits$word == "more", "below", "above"), spelt(limits$at), collapse = " and ")
    table <- length(release$variables[[recode$variable]]$categories) > 0
    right <- if (table) paste("A table of", recode$variable, "and quantiles") else "Quantiles"
    paste0(recode$variable, ": ", stands, " (recoded). So this ", what, " is that of the recoded numbers", effect,
           ". ", right, " ", ends, " are not affected.")
  })
  as.character(unlist(told))
}

# A sentence for each of these variables whose numbers are those of bands or groups that a recode made: which these
# numbers are, and how the result can differ from that of the values.
band_warnings <- function(release, names, what) {
  made <- Filter(function(one) one$variable %in% names && makes_categories(one), release$recodes)
  banded <- Filter(function(one) !is_coded(release, one$variable), made)
  vapply(banded, function(recode) {
    bands <- bands_of(recode)
    numbers <- "codebook.json says of which values"
    if (!is.null(bands) && nrow(bands) <= 10) {
      counts <- c("counts as", rep("as", nrow(bands) - 1))
      numbers <- paste(bands$range, counts, bands$name, collapse = ", ")
    }
    low <- !is.null(bands) && isTRUE(all(suppressWarnings(as.numeric(bands$name)) <= bands$from))
    known <- low && what %in% c("mean", "total", "quantile")
    effect <- if (known) "can only be too low" else "can be too high or too low"
    sprintf("%s: in bands or groups, so this %s is that of their numbers (%s), not of the values of the file; it %s.",
            recode$variable, what, numbers, effect)
  }, "")
}

# The range, the name and the lower end of each band of numbers; NULL for any other recode.
bands_of <- function(recode) {
  if (is.null(recode$bands) || length(recode$unit)) return(NULL)
  from <- as.numeric(unlist(recode$bands))
  range <- paste0(spelt(from), " to <", spelt(c(from[-1], Inf)))
  range[length(range)] <- paste0(spelt(max(from)), "+")
  name <- as.character(unlist(recode$labels) %or% range)
  below <- recode$below %or% ""
  if (nzchar(below)) {
    return(data.frame(range = c(paste("below", spelt(from[1])), range), name = c(below, name), from = c(-Inf, from)))
  }
  data.frame(range = range, name = name, from = from)
}

makes_categories <- function(recode) {
  kinds <- c("bands", "groups", "hierarchy")
  any(vapply(recode$steps %or% list(recode), function(step) any(kinds %in% names(step)), TRUE))
}

# Whether a hierarchy makes the categories, whose names are codes, and no order says else.
is_coded <- function(release, name) {
  if (isTRUE(release$variables[[name]]$ordered)) return(FALSE)
  made <- Filter(function(one) one$variable == name, release$recodes)
  any(vapply(made, function(one) "hierarchy" %in% names(utils::tail(one$steps %or% list(one), 1)[[1]]), TRUE))
}

# The covariates that enter a formula otherwise than by category.
amounts_of <- function(formula) {
  factors <- rownames(attr(stats::delete.response(stats::terms(formula)), "factors"))
  taken <- grep("^(factor|as[.]factor)\\(", factors, value = TRUE, invert = TRUE)
  unique(unlist(lapply(taken, function(term) all.vars(str2lang(term)))))
}

# The numbers of the result that stand for more or less, after all steps of a recode.
limits_of <- function(recode) {
  found <- data.frame(at = numeric(), word = character())
  for (step in recode$steps %or% list(recode)) {
    own <- c(less = step$bottom, more = step$top)
    if (length(own)) {
      found$at <- pmax(pmin(found$at, step$top %or% Inf), step$bottom %or% -Inf)
      found <- rbind(found, data.frame(at = as.numeric(own), word = names(own)))
    } else if (length(step$rounding)) {
      found$at <- rounded(found$at, step$rounding)
    } else {
      found <- found[0, ] # names of categories
    }
    found$word <- rev(found$word)[match(found$at, rev(found$at))] # the last word on a number holds
    found <- found[!duplicated(found$at), ]
  }
  found
}

rounded <- function(x, base) {
  places <- nchar(sub("^[^.]*[.]?", "", spelt(base)))
  round(floor(x / base + 0.5) * base, places) + 0
}

# A number as people write it.
spelt <- function(x) vapply(x, format, "", digits = 15, scientific = FALSE, trim = TRUE)
