import Glibc
import Testing

/// What `scripts/test --sanitize address` changes for tests.
package enum AddressSanitizer {
    /// Whether this process was built with AddressSanitizer.
    package static let isOn = dlsym(nil, "__asan_init") != nil

    /// Checks for leaks now, and not when this process exits. For a process that exits in the middle of its work, whose
    /// memory in use would be reported.
    package static func checkLeaksNow() {
        typealias Check = @convention(c) () -> Void
        guard let symbol = dlsym(nil, "__lsan_do_leak_check") else { return }
        unsafeBitCast(symbol, to: Check.self)()
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips a test of how much memory is in use. AddressSanitizer keeps released memory, and needs more for each block;
    /// ThreadSanitizer needs several bytes for each that is used.
    package static var measuresMemory: Self {
        .disabled(
            if: AddressSanitizer.isOn || dlsym(nil, "__tsan_init") != nil,
            "measures memory, of which sanitizers use more")
    }
}
