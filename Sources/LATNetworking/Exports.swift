// What a call takes and gives lives in the modules below; `import LATNetworking` is enough to name it.
@_exported public import CurlTransport
@_exported public import HTTPCore
@_exported public import ResponseCache
// Where a table's values stand, and what is wrong with one, are part of what a table tells.
@_exported public import DomainTableFormat
