// A call takes and returns types of these modules; `import LATNetworking` is enough to name them.
@_exported public import CurlTransport
@_exported public import HTTPCore
@_exported public import ResponseCache
// A table reports source positions and errors as values of this module.
@_exported public import DomainTableFormat
