import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Files that cannot be sent fail before a connection is opened.
@Suite(.timeLimit(.minutes(1))) struct UploadFileFaultTests {
    private func path(_ kind: String, in directory: TemporaryDirectory) throws -> String {
        switch kind {
        case "missing": return directory.path(of: "missing")
        case "a directory":
            try directory.write(Data(), to: "folder/x")
            return directory.path(of: "folder")
        case "a named pipe":
            #expect(mkfifo(directory.path(of: "pipe"), 0o600) == 0)
            return directory.path(of: "pipe")
        case "a dangling link":
            #expect(symlink("nowhere", directory.path(of: "link")) == 0)
            return directory.path(of: "link")
        case "unreadable":
            let path = try directory.write(Data("x".utf8), to: "secret")
            #expect(chmod(path, 0) == 0)
            return path
        default: return ""
        }
    }

    @Test(arguments: ["missing", "a directory", "a named pipe", "a dangling link", "an empty path"])
    func unusableFileFailsUnsent(kind: String) async throws { try await expectUnsent(kind) }

    @Test(.enabled(if: geteuid() != 0, "root can read every file"))
    func unreadableFileFailsUnsent() async throws { try await expectUnsent("unreadable") }

    private func expectUnsent(_ kind: String) async throws {
        let server = try MockServer()
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.make()
        let path = try path(kind, in: directory)
        let files = [
            UploadFile(name: "ok", fileName: "ok", data: Data(count: 100)), UploadFile(name: "bad", path: path),
        ]
        let uploads = [
            manager.upload(server.url(), files: files), manager.upload(server.url(), body: .file(path)),
        ]
        for upload in uploads {
            let error = try #require(await failure(of: { try await upload.value }))
            #expect(error.kind == .requestBody && error.message.contains("\"\(path)\""), "\(error)")
            #expect(upload.state == .failed)
        }
        let error = await failure(of: { try await manager.startRequest("PUT", server.url(), files: files) })
        #expect(error?.kind == .requestBody)
        #expect(server.acceptedConnections == 0)
    }

    @Test func emptyFileIsSent() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(200) }
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(), to: "empty.txt")
        let manager = try CentralRequestManager.make()
        let parts = manager.upload(server.url(), files: [UploadFile(name: "e", path: path)])
        _ = try await parts.value
        #expect(server.requests[0].text.contains("filename=\"empty.txt\"\r\nContent-Type: text/plain\r\n\r\n\r\n--"))
        #expect(parts.currentProgress.fraction == 1 && parts.currentProgress.files.map(\.state) == [.done])
        _ = try await manager.upload(server.url(), body: .file(path)).value
        #expect(server.requests[1].headers["Content-Length"] == "0" && server.requests[1].body.isEmpty)
    }
}
