import Glibc
import Testing

/// Runs a function that uses files as another user. It must not suspend. Files that it makes belong to that user, as those of a
/// file system that shows another owner do.
package func asUser<Result>(_ user: UInt32, _ body: () throws -> Result) throws -> Result {
    typealias SetUser = @convention(c) (UInt32) -> CInt
    let change = unsafeBitCast(try #require(dlsym(nil, "setfsuid")), to: SetUser.self)
    let before = change(user)
    defer { _ = change(UInt32(before)) }
    return try body()
}
