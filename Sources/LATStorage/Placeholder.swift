package let storageVersion = 1
