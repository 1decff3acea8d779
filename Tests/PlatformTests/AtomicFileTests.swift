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

    @Test(arguments: [false, true]) func linkAndPipeThatAUserChoseStay(inPieces: Bool) throws {
        func write(_ text: String, _ path: String) throws {
            if inPieces {
                try AtomicFile.write(to: path) { write in for byte in text.utf8 { try write([byte]) } }
            } else {
                try AtomicFile.write(text.utf8, to: path, isShared: true)
            }
        }
        let file = try directory.write(Data("old".utf8), to: "file")
        let link = directory.path(of: "link")
        #expect(symlink("file", link) == 0)
        try write("new", link)
        #expect(directory.read("file") == Data("new".utf8) && directory.contents == ["file", "link"])
        #expect((unlink(link), unlink(file)) == (0, 0))
        let pipe = directory.path(of: "pipe")
        #expect(mkfifo(pipe, 0o600) == 0 && symlink("pipe", link) == 0)
        let reader = open(pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        defer { close(reader) }
        for path in [pipe, link] {
            try write("through", path)
            var buffer = [UInt8](repeating: 0, count: 100)
            #expect(read(reader, &buffer, 100) == 7 && buffer.starts(with: "through".utf8))
        }
        var status = stat()
        #expect(lstat(pipe, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
        #expect(directory.contents == ["link", "pipe"])
        // Nothing is made in its place.
        #expect(throws: SystemError.self) { try AtomicFile.write("x".utf8, to: pipe, replaces: false) }
    }

    @Test func fileOfTheUserBesideItStays() throws {
        try directory.write(Data("mine".utf8), to: "settings.json.new")
        try AtomicFile.write("{}".utf8, to: directory.path(of: "settings.json"))
        #expect(directory.contents == ["settings.json", "settings.json.new"])
        #expect(directory.read("settings.json.new") == Data("mine".utf8))
    }

    @Test func linkIsFollowedOnlyWhereAsked() throws {
        let file = try directory.write(Data("old".utf8), to: "file")
        let link = directory.path(of: "link")
        for followsLinks in [true, false] {
            #expect(symlink("file", link) == 0)
            for isShared in [false, true] {
                try AtomicFile.write("\(followsLinks)".utf8, to: link, isShared: isShared, followsLinks: followsLinks)
            }
            #expect(directory.read("link") == Data("\(followsLinks)".utf8))
            // Only the first of the two names stays a link.
            #expect(directory.read("file") == Data("true".utf8))
            #expect((unlink(link), access(file, F_OK)) == (0, 0))
        }
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files away")) func linkOfAnotherUserIsReplaced() throws {
        try directory.write(Data("kept".utf8), to: "file")
        let link = directory.path(of: "link")
        #expect(symlink("file", link) == 0 && lchown(link, 12_345, 12_345) == 0)
        try AtomicFile.write("new".utf8, to: link)
        #expect(directory.read("file") == Data("kept".utf8) && directory.read("link") == Data("new".utf8))
    }

    // MARK: Files of the program itself

    private func refusal(_ path: String, limit: Int = 100) -> String? {
        do throws(OwnFile.Refusal) {
            _ = try OwnFile.bytes(of: path, limit: limit)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func ownFileIsRead() throws {
        let path = try directory.write(Data("text".utf8), to: "own")
        chmod(path, 0o600)
        #expect(try OwnFile.bytes(of: path, limit: 4) == Array("text".utf8))
        #expect(try OwnFile.bytes(of: directory.path(of: "none"), limit: 4) == nil)
        #expect(try OwnFile.bytes(of: path + "/none", limit: 4) == nil)
        #expect(refusal(path, limit: 3) == "is larger than 3 bytes; remove it")
    }

    @Test func fileThatOthersMayWriteIsRefused() throws {
        let path = try directory.write(Data("text".utf8), to: "own")
        for mode in [0o620, 0o602, 0o666] as [mode_t] {
            chmod(path, mode)
            #expect(refusal(path)?.hasPrefix("may be written by others (mode \(String(mode, radix: 8)))") == true)
        }
        chmod(path, 0o644)
        #expect(refusal(path) == nil)
        let link = directory.path(of: "link")
        #expect(symlink("own", link) == 0 && refusal(link) == "is a symbolic link; remove it")
        #expect(refusal(directory.path) == "is not a regular file; remove it")
        let pipe = directory.path(of: "pipe")
        #expect(mkfifo(pipe, 0o600) == 0 && refusal(pipe) == "is not a regular file; remove it")
        var status = stat()
        status.st_mode = S_IFREG | 0o600
        status.st_uid = 7
        #expect(OwnFile.refusal(status, 1, user: 8)?.reason == "belongs to another user (uid 7); remove it")
        status.st_uid = 0
        #expect(OwnFile.refusal(status, 1, user: 8) == nil)
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
