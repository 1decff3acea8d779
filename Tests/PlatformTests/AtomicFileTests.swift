import FoundationEssentials
import Glibc
import LATTesting
import Platform
import Testing

@Suite struct AtomicFileTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func make(_ name: String, isOld: Bool = true) throws -> String {
        let path = try directory.write(Data("secret".utf8), to: name)
        var times = [timespec(), timespec()]
        for index in 0..<2 { times[index].tv_sec = time(nil) - (isOld ? 3_600 : 0) }
        #expect(utimensat(AT_FDCWD, path, times, 0) == 0)
        return path
    }

    /// AddressSanitizer sees when the last name in the system's buffer is read beyond its end.
    @Test func namesOfALargeFolderAreRead() throws {
        let names = (0..<3_000).map { String($0, radix: 36) }
        for name in names { _ = try directory.write(Data(), to: name) }
        #expect(SystemFiles(root: directory.path).names(in: "/") == names.sorted())
    }

    @Test(arguments: [false, true]) func leftoversOfKilledWritersAreRemoved(inPieces: Bool) throws {
        let path = directory.path(of: "cookies")
        let kept = [
            "cookies.new", "cookies.1-2", "cookies.1-a.new", "cookies.1.new", "cookies.-.new", "other.1-2.new",
            "cookies.bak.1-2.new",
        ]
        for name in kept + ["cookies.1-2.new", "cookies.\(getpid())-18446744073709551615.new"] { _ = try make(name) }
        _ = try make("cookies.1-3.new", isOld: false)
        // The name of a file that another process is writing.
        let descriptor = open(try make("cookies.1-4.new"), O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        #expect(flock(descriptor, LOCK_EX) == 0)
        if inPieces {
            try AtomicFile.write(to: path) { write in try write(Array("new".utf8)[...]) }
        } else {
            try AtomicFile.write("new".utf8, to: path, isShared: true)
        }
        #expect(Set(directory.contents) == Set(kept + ["cookies", "cookies.1-3.new", "cookies.1-4.new"]))
        #expect(try Data(contentsOf: URL(filePath: path)) == Data("new".utf8))
    }

    @Test func folderIsNotListedAtEachWrite() throws {
        let path = directory.path(of: "cookies")
        for text in ["1", "2"] {
            let leftover = try make("cookies.1-2.new")
            try AtomicFile.write(text.utf8, to: path, isShared: true)
            // Only the first write looks for leftovers.
            #expect((access(leftover, F_OK) == 0) == (text == "2"))
        }
        #expect(try Data(contentsOf: URL(filePath: path)) == Data("2".utf8))
    }
}
