# Time lmer on columns that notebook 81 wrote: Rscript lme4.R FOLDER FORMULA ROWS
#
# Every column is a file of doubles; levels.txt names the levels of those that are factors, their reference first.
# Prints the processor time of the fit, without reading, and the estimates as JSON.
suppressPackageStartupMessages(library(lme4))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
rows <- as.integer(arguments[3])
files <- list.files(folder, pattern = "[.]bin$")
columns <- lapply(files, function(name) readBin(file.path(folder, name), "double", rows))
names(columns) <- sub("[.]bin$", "", files)
data <- as.data.frame(columns)
for (line in readLines(file.path(folder, "levels.txt"))) {
  if (nchar(line) == 0) next
  parts <- strsplit(line, ",")[[1]]
  data[[parts[1]]] <- factor(parts[-1][data[[parts[1]]]], levels = parts[-1])
}
data$attempt <- factor(data$attempt)
invisible(gc())
used <- system.time(fit <- lmer(as.formula(arguments[2]), data, REML = TRUE))
seconds <- used[["user.self"]] + used[["sys.self"]]
b <- fixef(fit)
pairs <- paste0('"', names(b), '": ', sprintf("%.15g", b), collapse = ", ")
cat(sprintf('{"seconds": %.6f, "estimates": {%s}}\n', seconds, pairs))
