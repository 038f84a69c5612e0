# The JSON files of a release. All numbers in them are exact in double precision.

SCHEMAS <- list(manifest = paste0("postrand/release/", 1:3), codebook = paste0("postrand/codebook/", 1:3),
                mechanism = paste0("postrand/mechanism/", 1:2), completed = "postrand/completed/1")
UNIT <- 2^53
MAX_DENSE <- 3000

read_part <- function(dir, part) {
  path <- file.path(dir, paste0(part, ".json"))
  if (!file.exists(path)) {
    refuse("there is no such file", "give the folder of a release: it has a manifest.json", path)
  }
  found <- tryCatch(jsonlite::read_json(path, simplifyVector = FALSE), error = function(e) {
    refuse("this is not JSON", "get the release again from where it is published", path)
  })
  if (!is.character(found$schema) || !found$schema %in% SCHEMAS[[part]]) {
    refuse("unknown schema", "use a newer version of this package, or 'postrand estimate'", path)
  }
  found
}

# One row of whole numbers for each list of a list.
rows_of <- function(lists) do.call(rbind, lapply(lists, function(row) as.numeric(unlist(row))))

# The weights of a matrix in units of 2^-53: rows are true categories, columns released ones.
weights_of <- function(data) {
  size <- if (is.null(names(data))) length(data) else data[["size"]] %or% length(data[["off"]] %or% data[["usual"]])
  if (size > MAX_DENSE) return(NULL)
  if (is.null(names(data))) return(rows_of(data))
  if (!is.null(data[["off"]])) {
    found <- matrix(as.numeric(unlist(data[["off"]])), size, size)
    diag(found) <- as.numeric(unlist(data[["diagonal"]]))
    return(found)
  }
  found <- matrix(as.numeric(unlist(data[["usual"]])), size, size)
  for (row in seq_len(size)) {
    found[row, as.numeric(unlist(data[["columns"]][[row]])) + 1] <- as.numeric(unlist(data[["weights"]][[row]]))
  }
  found
}

block_of <- function(data) {
  weights <- data[["weights"]]
  pair <- if (!is.null(names(weights)) && !is.null(weights[["size"]])) lapply(weights[c("diagonal", "off")], `/`, UNIT)
  given <- as.character(unlist(data[["given"]]))
  variables <- as.character(unlist(data[["variables"]]))
  list(
    variables = variables, given = given, perturbed = setdiff(variables, given),
    cells = if (length(data[["cells"]])) rows_of(data[["cells"]]), weights = weights_of(weights), pair = pair,
    unit = data[["unit"]] %or% "record", weight = data[["weight"]]
  )
}

# The law of a block; a matrix that is too large to hold is refused.
law_of <- function(block) {
  if (is.null(block$weights)) {
    refuse(sprintf("the matrix has more than %d categories", MAX_DENSE),
           "use 'postrand estimate', which does not build it", paste0("block ", quoted(block$variables)))
  }
  block$weights / UNIT
}

# Whether each row of weights is whole numbers >= 0 that sum to exactly 2^53; `times` is how often each stands in it.
# High and low digits are summed apart: a sum of doubles alone could be rounded to 2^53.
are_exact <- function(weights, times = 1) {
  high <- rowSums(times * floor(weights / 2^26))
  low <- rowSums(times * (weights %% 2^26))
  all(weights >= 0, weights == floor(weights), low %% 2^26 == 0, high + low / 2^26 == 2^27)
}

variable_of <- function(data) {
  values <- unlist(data[["categories"]])
  kind <- if (is.logical(values)) "logical" else if (is.numeric(values)) "number" else "text"
  labels <- as.character(unlist(data[["labels"]]) %or% if (kind == "logical") tolower(values) else values)
  missing <- data[["missing"]] %or% "error"
  list(
    name = data[["name"]], role = data[["role"]], categories = values, kind = kind, type = data[["type"]] %or% "string",
    labels = c(labels, if (missing == "category") "(missing)"), named = as.character(unlist(data[["labels"]])),
    missing = missing, missing_codes = unlist(data[["missing_codes"]]), ordered = isTRUE(data[["ordered"]]),
    size = length(values) + (missing == "category" && length(values) > 0),
    hidden = as.character(data[["not_released"]] %or% "(not released)")
  )
}
