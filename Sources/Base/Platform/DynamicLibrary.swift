internal import Glibc

/// A shared library that is loaded when it is first needed instead of linked, so that an app needs no package more to be built.
package struct DynamicLibrary {
    private let handle: UnsafeMutableRawPointer

    /// Loads a library, which stays loaded; `nil` where it is missing.
    package init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.handle = handle
    }

    /// A function of the library; `nil` where it has none of this name.
    ///
    /// - Parameter type: its type, with the convention of C.
    package func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        dlsym(handle, name).map { unsafeBitCast($0, to: type) }
    }
}
