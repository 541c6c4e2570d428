"""The same bits everywhere: states and portable solutions on several processors, kernels and numbers of threads."""
