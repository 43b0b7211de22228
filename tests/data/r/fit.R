# Fit the twelve models with lme4 and stats to the small dataset beside this file.
#
#   Rscript fit.R FOLDER > values.csv
#
# FOLDER holds training.csv and terminal.csv. Prints quantity, term and value of each model, and the versions.
suppressPackageStartupMessages(library(lme4))
folder <- commandArgs(trailingOnly = TRUE)[1]
read <- function(name) {
  d <- read.csv(file.path(folder, name))
  d$architecture <- relevel(factor(d$architecture), "antisymmetric")
  d$dataset <- relevel(factor(d$dataset), "cifar10")
  d$noise <- relevel(factor(d$noise), "none")
  d$order <- relevel(factor(d$order), "sequential")
  d$log_rate <- log(d$learning_rate)
  d$log_rate_squared <- d$log_rate^2
  d
}
training <- read("training.csv")
terminal <- read("terminal.csv")
# The default stops as soon as the criterion is flat to 1e-8; the comparison asks for more.
tight <- lmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-12, maxfun = 1e5),
                     check.conv.singular = "ignore", calc.derivs = FALSE)
factors <- paste("architecture + log_rate + log_rate_squared + width + dataset + noise + order + epoch +",
                 "architecture:log_rate + architecture:log_rate_squared + architecture:noise")
no_epoch <- sub("epoch + ", "", sub("order + epoch", "order", factors, fixed = TRUE), fixed = TRUE)

show <- function(model, quantity, term, value)
  cat(sprintf("%s,%s,%s,%.15g\n", model, quantity, term, value), sep = "")
rmse <- function(r) sqrt(mean(r^2))

mixed <- function(model, right, response) {
  fit <- lmer(as.formula(paste(response, "~", right, "+ (1 | attempt)")), training, REML = TRUE, control = tight)
  b <- fixef(fit)
  show(model, "estimate", names(b), b)
  show(model, "standard_error", names(b), sqrt(diag(as.matrix(vcov(fit)))))
  group <- as.numeric(VarCorr(fit)$attempt)
  residual <- sigma(fit)^2
  explained <- var(predict(fit, re.form = NA))
  whole <- explained + group + residual
  show(model, "group_variance", "", group)
  show(model, "residual_variance", "", residual)
  show(model, "criterion", "", REMLcrit(fit))
  show(model, "rmse", "", rmse(residuals(fit)))
  show(model, "r2_marginal", "", explained / whole)
  show(model, "r2_conditional", "", (explained + group) / whole)
  show(model, "condition_number", "", kappa(getME(fit, "X"), exact = TRUE))
}

fixed <- function(model, right, response) {
  fit <- lm(as.formula(paste(response, "~", right)), terminal)
  s <- summary(fit)
  show(model, "estimate", rownames(s$coefficients), s$coefficients[, 1])
  show(model, "standard_error", rownames(s$coefficients), s$coefficients[, 2])
  show(model, "rmse", "", rmse(residuals(fit)))
  show(model, "r2", "", s$r.squared)
  show(model, "r2_adjusted", "", s$adj.r.squared)
  show(model, "condition_number", "", kappa(model.matrix(fit), exact = TRUE))
}

cat("model,quantity,term,value\n")
cat(sprintf("R,version,%s.%s,\n", R.version$major, R.version$minor))
cat(sprintf("lme4,version,%s,\n", packageVersion("lme4")))
mixed(1, "metric", "accuracy")
mixed(2, paste("metric +", factors), "accuracy")
mixed(3, factors, "accuracy")
mixed(7, "accuracy", "metric")
mixed(8, paste("accuracy +", no_epoch), "metric")
mixed(9, no_epoch, "metric")
mixed("boundary", "epoch", "unrelated")
fixed(4, "metric", "accuracy")
fixed(5, paste("metric +", factors), "accuracy")
fixed(6, factors, "accuracy")
fixed(10, "accuracy", "metric")
fixed(11, paste("accuracy +", factors), "metric")
fixed(12, factors, "metric")
