# Chapter 1 on the attempts of chapter1.csv, by R's own functions: writes chapter1.json.
#   Rscript chapter1.R chapter1.csv chapter1.json
# Needs R and jsonlite (Debian: r-base-core, r-cran-jsonlite).
arguments <- commandArgs(trailingOnly = TRUE)
attempts <- read.csv(arguments[1])
classes <- c(digits = 10, imdb = 2)
reference <- "antisymmetric"

# Task accuracy (1.5)
attempts$last <- ifelse(attempts$training_length == 3, attempts$accuracy_3, attempts$accuracy_5)
attempts$task <- paste(attempts$dataset, attempts$order)
chance <- 1 / classes[attempts$dataset]
largest <- ave(attempts$last, attempts$task, FUN = function(x) max(x, na.rm = TRUE))
attempts$y <- (attempts$last - chance) / (largest - chance)
tasks <- unique(attempts$task)
names(tasks) <- tasks
known <- unique(attempts$architecture)
attempts$architecture <- factor(attempts$architecture, c(reference, setdiff(known, reference)))
done <- attempts[attempts$status == 0, ]

# Maximising configurations: highest mean of the completed replicates
done$configuration <- paste(done$width, done$learning_rate, done$training_length)
at_best <- do.call(rbind, lapply(split(done, list(done$task, done$architecture), drop = TRUE), function(part) {
  means <- tapply(part$last, part$configuration, mean)
  part[part$configuration == names(means)[which.max(means)], ]
}))

describe <- function(fit) {
  table <- coef(summary(fit))  # aliased coefficients are NA in coef(fit) and absent here
  all <- names(coef(fit))
  pick <- function(column) setNames(as.list(table[match(all, rownames(table)), column]), all)
  interval <- confint(fit)
  list(
    estimate = pick(1), se = pick(2), p_value = pick(4),
    low = setNames(as.list(interval[all, 1]), all), high = setNames(as.list(interval[all, 2]), all),
    df = fit$df.residual, sigma = summary(fit)$sigma, r2 = summary(fit)$r.squared,
    adj_r2 = summary(fit)$adj.r.squared,
    condition_number = kappa(model.matrix(fit)[, !is.na(coef(fit))], exact = TRUE)
  )
}

first <- lapply(tasks, function(task) lm(y ~ architecture, at_best[at_best$task == task, ]))
second <- lapply(tasks, function(task) lm(
  y ~ architecture + log(learning_rate) + I(log(learning_rate)^2) + width + training_length +
    architecture:log(learning_rate) + architecture:I(log(learning_rate)^2),
  done[done$task == task, ]
))

# Pairwise tests (1.4) of one coefficient of (1.8)
pairs <- combn(tasks, 2)
test_pair <- function(pair, term) {
  one <- coef(summary(first[[pair[1]]]))[term, 1:2]
  two <- coef(summary(first[[pair[2]]]))[term, 1:2]
  variances <- c(one[2], two[2])^2
  df <- sum(variances)^2 / sum(variances^2 / sapply(pair, function(task) first[[task]]$df.residual))
  2 * pt(-abs(one[1] - two[1]) / sqrt(sum(variances)), df)
}
pairwise <- lapply(c(intercept = "(Intercept)", gru = "architecturegru"), function(term) {
  p <- apply(pairs, 2, test_pair, term = term)
  list(p_value = unname(p), p_bonferroni = p.adjust(unname(p), "bonferroni"))
})

# Equal variances and equal means over tasks
f_star <- function(y, group) {
  n <- tapply(y, group, length)
  weighted <- (1 - n / sum(n)) * tapply(y, group, var)
  statistic <- sum(n * (tapply(y, group, mean) - mean(y))^2) / sum(weighted)
  df <- 1 / sum((weighted / sum(weighted))^2 / (n - 1))
  list(statistic = statistic, df_between = length(n) - 1, df_within = df,
       p_value = pf(statistic, length(n) - 1, df, lower.tail = FALSE))
}
levene <- function(y, group) {
  deviation <- abs(y - ave(y, group, FUN = median))
  table <- anova(lm(deviation ~ factor(group)))
  list(statistic = table$`F value`[1], df_between = table$Df[1], df_within = table$Df[2],
       p_value = table$`Pr(>F)`[1])
}
with_enough <- function(part, least) part[ave(part$y, part$task, FUN = length) >= least, ]
architectures <- setNames(known, known)
variances <- lapply(architectures, function(name) {
  own <- at_best[at_best$architecture == name, ]
  two <- with_enough(own, 2)
  three <- with_enough(own, 3)
  deviation <- abs(three$y - ave(three$y, three$task, FUN = median))
  list(f_star = f_star(two$y, two$task), levene = levene(three$y, three$task),
       f_star_of_deviations = f_star(deviation, three$task))
})

# Convergence time within the first three epochs, and error rates
window <- as.matrix(at_best[, c("accuracy_1", "accuracy_2", "accuracy_3")])
at_best$epochs <- max.col(window, ties.method = "first")
times <- lapply(architectures, function(name) {
  own <- at_best[at_best$architecture == name, ]
  test <- kruskal.test(own$epochs, factor(own$task))
  list(statistic = unname(test$statistic), p_value = test$p.value,
       median = as.list(tapply(own$epochs, own$task, median)),
       deviation = as.list(tapply(own$epochs, own$task, sd)))
})
errors <- lapply(architectures, function(name) {
  own <- attempts[attempts$architecture == name, ]
  unname(suppressWarnings(chisq.test(table(own$task, own$status), correct = FALSE))$statistic)
})

jsonlite::write_json(
  list(
    r = R.version.string,
    configurations = lapply(split(at_best, at_best$task), function(part) {
      as.list(tapply(part$configuration, part$architecture, function(x) x[1]))
    }),
    first = lapply(first, describe), second = lapply(second, describe),
    pairwise = pairwise, variances = variances, times = times, errors = errors
  ),
  arguments[2], auto_unbox = TRUE, digits = NA, pretty = TRUE, na = "null"
)
