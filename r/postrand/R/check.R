NOT_CHECKED <- c(
  "the levels of the claims, computed again from the matrices",
  "the released counts, which must be possible under the matrices",
  "the digests of values in certificate.json, and that every JSON file is in its one form",
  "that report.html, README.txt, postrand.R, ddi.xml and croissant.json follow from the other files",
  "signatures: who released the files"
)

check_release <- function(dir) {
  manifest <- read_part(dir, "manifest")
  files <- manifest$files
  listed <- names(files)
  outside <- grepl("(^|[/\\\\])[.][.]([/\\\\]|$)|^[/\\\\]|^[A-Za-z]:", listed)
  if (any(outside)) refuse("the manifest names a file outside of the folder", "do not use this release", dir)
  paths <- file.path(dir, listed)
  there <- file.exists(paths)
  size <- vapply(files, function(file) as.numeric(file$bytes), 1)
  digests <- vapply(files, function(file) as.character(file$sha256), "")
  same <- there
  same[there] <- file.size(paths[there]) == size[there] &
    vapply(paths[there], function(path) digest::digest(path, "sha256", file = TRUE), "") == digests[there]
  found <- list.files(dir, recursive = TRUE, all.files = TRUE)
  more <- setdiff(found, c(listed, "manifest.json", "signatures.json"))
  core <- all(c("codebook.json", "mechanism.json", "certificate.json") %in% listed[same])
  exact <- core && matrices_are_exact(read_part(dir, "mechanism"))
  checks <- data.frame(
    check = c("every file of the manifest is there", "every file has the size and the SHA-256 of the manifest",
              "no file is there that the manifest does not list", "every row of every matrix sums to exactly 1"),
    passed = c(all(there), all(same), !length(more), exact),
    where = c(paste(listed[!there], collapse = ", "), paste(listed[there & !same], collapse = ", "),
              paste(more, collapse = ", "), if (core) "" else "not checked: a file that it needs failed")
  )
  structure(list(path = dir, passed = all(checks$passed), checks = checks, not_checked = NOT_CHECKED),
            class = "postrand_check")
}

matrices_are_exact <- function(mechanism) {
  subsets <- mechanism$split$subsets
  all(vapply(c(mechanism$blocks, subsets), function(block) is_exact(block$weights), TRUE),
      !length(subsets) || are_exact(matrix(vapply(subsets, function(one) as.numeric(one$weight), 1), 1)))
}

# Rows of a matrix in a short form are summed without making it.
is_exact <- function(data) {
  if (is.null(names(data))) return(are_exact(rows_of(data)))
  if (!is.null(data[["usual"]])) {
    size <- length(data[["usual"]])
    return(all(vapply(seq_len(size), function(row) {
      line <- rep(as.numeric(data[["usual"]][[row]]), size)
      line[as.numeric(unlist(data[["columns"]][[row]])) + 1] <- as.numeric(unlist(data[["weights"]][[row]]))
      are_exact(matrix(line, 1))
    }, TRUE)))
  }
  off <- as.numeric(unlist(data[["off"]]))
  stays <- as.numeric(unlist(data[["diagonal"]]))
  others <- (data[["size"]] %or% length(off)) - 1
  are_exact(cbind(stays, off), times = rep(c(1, others), each = length(off)))
}

print.postrand_check <- function(x, ...) {
  cat("Release ", x$path, ": ", if (x$passed) "passed" else "FAILED", "\n", sep = "")
  marks <- ifelse(x$checks$passed, "yes", "NO")
  where <- ifelse(nzchar(x$checks$where), paste0(": ", x$checks$where), "")
  cat(sprintf("  %-3s  %s%s\n", marks, x$checks$check, where), sep = "")
  cat("Not checked here, only by 'postrand verify':\n", sprintf("  %s\n", x$not_checked), sep = "")
  invisible(x)
}
