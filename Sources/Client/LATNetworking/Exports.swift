// The product: one request with all that may happen to it, and the transfers of files. `import LATNetworking` is enough.
@_exported public import LATClient
@_exported public import LATTransfers
