/// A part of a file that is sent as a body.
package struct FileSlice: Hashable, Sendable {
    package let path: String
    /// The bytes that are sent.
    package let range: Range<Int64>
    /// The version that the file must have from the first byte to the last. Another one fails the request.
    package let version: FileVersion
    /// The SHA-256 of the bytes, if it is known before they are sent.
    package let sha256: [UInt8]?

    package init(path: String, range: Range<Int64>, version: FileVersion, sha256: [UInt8]? = nil) {
        self.path = path
        self.range = range
        self.version = version
        self.sha256 = sha256
    }
}

/// What tells two versions of a file apart without reading it. The number of the device is not part of it, because it may
/// differ after the next start of the system.
package struct FileVersion: Hashable, Sendable {
    package var size: Int64
    /// The time of the last change of the content.
    package var seconds: Int64
    package var nanoseconds: Int64
    /// The time of the last change of the content or of what the system keeps about it, which programs cannot set.
    package var changeSeconds: Int64
    package var changeNanoseconds: Int64
    package var inode: UInt64

    package init(
        size: Int64, seconds: Int64, nanoseconds: Int64, changeSeconds: Int64, changeNanoseconds: Int64, inode: UInt64
    ) {
        self.size = size
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.changeSeconds = changeSeconds
        self.changeNanoseconds = changeNanoseconds
        self.inode = inode
    }
}
