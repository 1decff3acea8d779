// What a call takes and gives lives in the modules below; `import LATNetworking` is enough to name it.
@_exported public import CurlTransport
@_exported public import HTTPCore
@_exported public import ResponseCache
