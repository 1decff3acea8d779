// `import LATKit` is enough to make a manager and name what its calls take and return.
@_exported public import LATNetworking
