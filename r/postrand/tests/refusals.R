# A damaged release is found, and what is not supported is refused with the next step.
library(postrand)

folder <- system.file("extdata", package = "postrand")
said <- function(code, words) {
  text <- tryCatch({
    code
    "no refusal"
  }, error = conditionMessage)
  if (!grepl(words, text) || !grepl("Next: ", text)) stop("wanted '", words, "', got: ", text)
}
copy_of <- function(name) {
  made <- tempfile()
  dir.create(made)
  file.copy(file.path(folder, name), made, recursive = TRUE)
  file.path(made, name)
}

checked <- check_release(file.path(folder, "survey"))
stopifnot(checked$passed, any(grepl("postrand verify", capture.output(print(checked)))))

damaged <- copy_of("survey")
lines <- readLines(file.path(damaged, "data.csv"))
writeLines(rev(lines), file.path(damaged, "data.csv"))
stopifnot(!check_release(damaged)$passed, check_release(damaged)$checks$where[2] == "data.csv")
said(read_release(damaged), "size and the SHA-256")
more <- copy_of("survey")
writeLines("x", file.path(more, "notes.txt"))
stopifnot(check_release(more)$checks$where[3] == "notes.txt")
less <- copy_of("survey")
unlink(file.path(less, "report.html"))
stopifnot(check_release(less)$checks$where[1] == "report.html")
said(read_release(tempdir()), "no such file")
newer <- copy_of("survey")
path <- file.path(newer, "manifest.json")
writeLines(sub("postrand/release/3", "postrand/release/99", readLines(path)), path)
said(read_release(newer), "unknown schema")

# A matrix whose row sums to 2^53 + 1, which doubles round to 2^53, is found although its digest fits.
forged <- copy_of("survey")
path <- file.path(forged, "mechanism.json")
law <- jsonlite::read_json(path)
row <- unlist(law$blocks[[1]]$weights[[1]])
swap <- function(file, from, to) {
  text <- paste(readLines(file), collapse = "\n")
  stopifnot(grepl(from, text, fixed = TRUE))
  cat(sub(from, to, text, fixed = TRUE), "\n", sep = "", file = file)
}
swap(path, sprintf("%.0f, %.0f", row[1], row[2]), sprintf("%.0f, %.0f", row[1], row[2] + 1))
manifest <- file.path(forged, "manifest.json")
told <- jsonlite::read_json(manifest)$files[["mechanism.json"]]
swap(manifest, told$sha256, digest::digest(path, "sha256", file = TRUE))
swap(manifest, paste0("\"bytes\": ", told$bytes), paste0("\"bytes\": ", file.size(path)))
found <- check_release(forged)
stopifnot(!found$passed, all(found$checks$passed[c(1, 3)]), !found$checks$passed[4])

release <- read_release(file.path(folder, "survey"))
split <- read_release(file.path(folder, "split"))
said(release_table(release, "pay"), "has no categories")
said(release_table(release, "nothing"), "no column 'nothing'")
said(release_table(release, "sex", weights = "region"), "column of weights is perturbed")
said(release_table(split, c("region", "ill")), "no record shows all")
said(release_mean(release, "job"), "categories are not numbers")
said(confint(release_table(split, "sex")), "no intervals for shares")
said(release_lm(log(pay) ~ sex, release), "one response ~ covariates")
said(release_lm(pay ~ sex + offset(weight), release), "offset")
said(release_lm(pay ~ sex + log(ill), release), "not a finite number")
said(release_glm(ill ~ sex, release, stats::Gamma()), "unknown family Gamma")
said(release_lm(pay ~ area + I(area == "town"), release), "not identified")
said(read_release(file.path(folder, "survey"), data = release$data[1:3]), "do not have the columns")
if (requireNamespace("mitools", quietly = TRUE)) {
  said(as_imputations(file.path(folder, "completed"), split), "another release")
}
if (requireNamespace("survey", quietly = TRUE)) {
  said(as_svydesign(release, weights = "sex"), "not a column that is released as it is: 'sex'")
}
