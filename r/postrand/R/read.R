read_release <- function(dir, data = NULL, check = TRUE) {
  if (check) {
    found <- check_release(dir)
    if (!found$passed) {
      failed <- found$checks[!found$checks$passed, ]
      refuse(paste0("not so: ", paste(failed$check, collapse = "; ")),
             "see check_release(), and get the release again from where it is published", dir)
    }
  }
  manifest <- read_part(dir, "manifest")
  book <- read_part(dir, "codebook")
  law <- read_part(dir, "mechanism")
  variables <- lapply(book$variables, variable_of)
  names(variables) <- vapply(variables, function(v) v$name, "")
  subsets <- lapply(law$split$subsets, block_of)
  blocks <- lapply(law$blocks, block_of)
  ranked <- law$numerical
  release <- list(
    path = dir, manifest = manifest, variables = variables, recodes = book$recodes, survey = book$survey,
    blocks = blocks, subsets = subsets,
    partly = unique(unlist(lapply(subsets, function(one) one$perturbed))),
    household = law$units$household, members = any(vapply(subsets, function(one) one$unit == "household", TRUE)),
    ranked = stats::setNames(vapply(ranked, function(one) one$form %or% "permute", ""),
                             vapply(ranked, function(one) one$variable, ""))
  )
  release$perturbed <- unique(c(unlist(lapply(blocks, function(block) block$perturbed)), release$partly))
  structure(c(release, columns_of(release, data %or% read_data(dir, manifest$data))), class = "postrand_release")
}

read_data <- function(dir, name) {
  path <- file.path(dir, name)
  if (dir.exists(path)) path <- sort(list.files(path, "^part-", full.names = TRUE))
  if (!length(path) || !all(grepl("[.]csv$", path))) {
    refuse(paste0("this package reads data in CSV only, and the data are ", quoted(name)),
           "read them with another package, for example arrow::read_parquet(), and give them as data =", dir)
  }
  do.call(rbind, lapply(path, read_csv))
}

# All columns as text: an empty field is a missing value, and nothing else is.
read_csv <- function(path) {
  utils::read.csv(path, colClasses = "character", check.names = FALSE, encoding = "UTF-8", na.strings = character())
}

# Codes 0, 1, ... of the categories (NA: missing, -1: not released), and the columns as analysts want them.
columns_of <- function(release, data) {
  data <- as.data.frame(data, optional = TRUE)
  there <- function(v) v$role != "drop" && (v$role != "record_key" || v$name %in% names(data))
  wanted <- Filter(there, release$variables)
  absent <- setdiff(names(wanted), names(data))
  if (length(absent)) {
    refuse(paste0("the data do not have the columns ", quoted(absent)), "give the data of this release")
  }
  codes <- list()
  for (v in wanted) {
    given <- data[[v$name]]
    if (inherits(given, "haven_labelled")) {
      refuse("the column is labelled: codes for missing and unreleased values have forms of their own in it",
             "use the release's own postrand.R, which reads these files, or the release as CSV", quoted(v$name))
    }
    if (inherits(given, "integer64")) {
      refuse("the column has 64-bit integers, which R reads as numbers only with another package",
             "convert it, for example data$x <- as.numeric(data$x) with package bit64 loaded", quoted(v$name))
    }
    if (is.factor(given)) given <- as.character(given)
    if (is.character(given)) given[!nzchar(given)] <- NA
    if (v$size) codes[[v$name]] <- codes_of(given, v, v$name %in% release$partly)
    data[[v$name]] <- if (v$size) values_of(codes[[v$name]], v) else typed(given, v)
  }
  list(codes = codes, data = data[names(wanted)], records = nrow(data))
}

# Numbers are compared by 15 digits: readers differ in the last bit.
keys_of <- function(values, kind) {
  if (kind == "number") {
    numbers <- suppressWarnings(as.numeric(values))
    return(ifelse(is.na(numbers), NA, sprintf("%.15g", numbers + 0)))
  }
  if (kind == "logical") return(tolower(as.character(if (is.numeric(values)) as.logical(values) else values)))
  as.character(values)
}

# Files of statistical programs have numbers for texts of numbers: 3 for "3.0". 01 is a code, and not the number 1.
kind_of <- function(given, v) {
  numbers <- grepl("^-?(0|[1-9][0-9]*)([.][0-9]+)?$", as.character(v$categories))
  if (is.numeric(given) && v$kind == "text" && all(numbers)) "number" else v$kind
}

codes_of <- function(given, v, partly) {
  kind <- kind_of(given, v)
  code <- match(keys_of(given, kind), keys_of(v$categories, kind), incomparables = NA) - 1
  if (partly) code[!is.na(given) & as.character(given) == v$hidden] <- -1
  if (any(is.na(code) & !is.na(given))) {
    refuse("a value is not in the codebook", "give the data of this release, unchanged", quoted(v$name))
  }
  absent <- is.na(given)
  if (v$missing == "category") code[absent] <- v$size - 1
  if (v$missing == "error" && any(absent)) {
    refuse("a value is missing, which the codebook does not allow", "give the data of this release, unchanged",
           quoted(v$name))
  }
  code
}

# Missing values and those that are not released are NA, but a category for missing values is a level of its own.
values_of <- function(codes, v) {
  place <- ifelse(is.na(codes) | codes < 0, NA, codes + 1)
  if (v$kind == "number" && v$missing != "category") return(as.numeric(v$categories)[place])
  factor(place, seq_len(v$size), c(as.character(v$categories), if (v$missing == "category") "(missing)"))
}

typed <- function(given, v) {
  if (!is.character(given)) return(given)
  if (grepl("^u?int|^float|^double|^halffloat|^decimal", v$type)) {
    numbers <- as.numeric(given)
    exact <- all(abs(numbers) < UNIT, na.rm = TRUE)  # numbers of households can be too long for doubles
    return(if (grepl("int", v$type) && !exact) given else numbers)
  }
  if (v$type == "bool") return(tolower(given) == "true")
  given
}

print.postrand_release <- function(x, ...) {
  cat(sprintf("Release %s: %s records, %d columns\n", x$path, format(x$records, big.mark = ","), ncol(x$data)))
  cat("  perturbed: ", paste(x$perturbed, collapse = ", "), "\n", sep = "")
  parts <- vapply(x$survey, function(part) paste(unlist(part), collapse = ", "), "")
  told <- list("of these each record shows some only" = x$partly,
               "values exchanged or averaged by ranks" = names(x$ranked),
               "survey design recorded" = if (length(parts)) paste(names(parts), parts, sep = " = ", collapse = "; "))
  for (what in names(told)) {
    if (length(told[[what]])) cat("  ", what, ": ", paste(told[[what]], collapse = ", "), "\n", sep = "")
  }
  cat("Columns of perturbed variables are not the true values: use release_table(), release_mean(), release_lm().\n")
  invisible(x)
}
