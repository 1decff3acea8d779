// A call takes and returns types of these modules; `import LATNetworking` is enough to name them. Those who write a store of
// their own, or name the types of the cache's reports, import `ResponseCache` too.
@_exported public import CurlTransport
@_exported public import DomainTables
@_exported public import HTTPCore
@_exported public import LATSealing
