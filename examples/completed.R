# Analyse completed files in R, and pool the results by Rubin's rules. Base R is enough.
stacked <- read.csv("completed/completed.csv")
stacked$tvhours[stacked$tvhours == 99] <- NA    # 99 is no answer
copies <- split(stacked, stacked$Imputation_)
copies[["0"]] <- NULL                          # copy 0 is the release without its perturbed values
fits <- lapply(copies, function(copy) glm(I(happy == "very happy") ~ female + tvhours, binomial, copy))

estimates <- sapply(fits, coef)
within <- rowMeans(sapply(fits, function(fit) diag(vcov(fit))))
m <- length(fits)
total <- within + (1 + 1 / m) * apply(estimates, 1, var)
print(round(data.frame(estimate = rowMeans(estimates), se = sqrt(total), naive_se = sqrt(within)), 3))
