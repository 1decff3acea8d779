internal import HTTPCore
import Platform

/// The public suffixes, such as `com` and `co.uk`, for which no cookie may be set: the list of publicsuffix.org, read
/// with libpsl.
///
/// libcurl's own jar uses the same library, so it is installed wherever Debian's libcurl is.
struct PublicSuffixList: Sendable {
    private typealias Latest = @convention(c) (UnsafePointer<CChar>?) -> OpaquePointer?
    private typealias Builtin = @convention(c) () -> OpaquePointer?
    private typealias IsSuffix = @convention(c) (OpaquePointer?, UnsafePointer<CChar>) -> CInt

    // Sendable: the list is never freed or changed.
    nonisolated(unsafe) private let list: OpaquePointer
    private let isSuffix: IsSuffix

    /// The list of this process, read at first use; `nil` where libpsl is missing.
    static let shared = PublicSuffixList()

    private init?() {
        guard let library = DynamicLibrary("libpsl.so.5"),
            let latest = library.function("psl_latest", as: Latest.self),
            let builtin = library.function("psl_builtin", as: Builtin.self),
            let isSuffix = library.function("psl_is_public_suffix", as: IsSuffix.self),
            // The system's file if it is newer than the list built into the library.
            let list = latest(nil) ?? builtin()
        else { return nil }
        self.list = list
        self.isSuffix = isSuffix
    }

    /// Whether a name in lower case is a public suffix. A name of one label that is not in the list counts as a suffix.
    func contains(_ domain: String) -> Bool { isSuffix(list, domain) != 0 }
}
