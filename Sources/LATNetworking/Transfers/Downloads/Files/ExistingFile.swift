import HTTPCore

/// What is done about a file that has the name of a download already.
enum ExistingFile {
    /// Whether it is left alone and the download is over.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when it must not be there.
    static func isKept(at path: String, _ options: DownloadOptions) throws(NetworkError) -> Bool {
        switch (options.existingFile, DownloadTarget.existing(at: path)) {
        case (_, .nothing), (.overwrite, .file): return false
        case (_, .other): throw StorageFailure.notRegular(path)
        case (.fail, .file): throw StorageFailure.exists(path)
        case (.skip, .file):
            guard let expected = options.digest else { return true }
            return try FileDigest.hexadecimal(path, expected.algorithm.function) == expected.hexadecimal.lowercased()
        }
    }
}
