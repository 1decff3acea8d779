extension ResumableUpload {
    /// What has become of an earlier run of an upload that can go on, and where the upload is.
    ///
    /// ```swift
    /// let upload = central.upload(url, body: .file("/tmp/backup.tar"), resumable: .tus)
    /// _ = try await upload.value
    /// print(upload.resumption?.byteCount ?? 0, "bytes were there already")
    /// ```
    public struct Resumption: Sendable, Hashable {
        /// The bytes that the server had of an earlier run; 0 when there was none, or nothing of it could be used.
        public package(set) var byteCount: Int64 = 0
        /// Why the file was sent from its beginning although a part of it had been sent; `nil` when it was not.
        public package(set) var restart: Restart?
        /// Whether the server has something that the same call can continue. After the end it says whether it was so.
        public package(set) var canContinue = false
        /// The URL of the upload on the server; `nil` before it is created, and when the server has taken the file as an
        /// ordinary upload. It may have secrets, as signed links do. With S3 it is that of the object. An upload of tus in
        /// several parts has it only when it is complete.
        public package(set) var url: String?

        package init() {}

        /// Why an upload begins anew.
        public enum Restart: String, Sendable, Hashable {
            /// The file has changed since the earlier run.
            case fileChanged
            /// The server does not know the upload any more, such as after the time that it keeps unfinished ones.
            case forgotten
        }
    }
}
