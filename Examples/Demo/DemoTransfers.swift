import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization

/// The steps of the demo that transfer files.
extension DemoSteps {
    func uploadFiles() -> Step {
        Step(
            title: "Upload two files, one from memory, one from disk",
            call: """
                let files = [UploadFile(name: "note", fileName: "note.txt", data: note),
                             UploadFile(name: "photo", path: "\(Self.photoName)")]
                try await central.startRequest("POST", "/photos", files: files,
                    progress: { bar.update($0.completed, of: $0.total) })
                """
        ) {
            let directory = try TemporaryDirectory()
            let note = Data("Two files in one request, streamed in constant memory.\n".utf8)
            let photo = try directory.writePattern(byteCount: DemoServer.uploadSize, to: Self.photoName)
            let files = [
                UploadFile(name: "note", fileName: "note.txt", data: note), UploadFile(name: "photo", path: photo),
            ]
            // A new connection, because the server gives only new ones the small buffers that make the bar visible.
            if server.bodyReadRate != nil {
                server.closeIdleConnections()
                try await server.waitUntilDisconnected()
            }
            let bar = output.bar("uploading")
            defer { bar.clear() }
            let events = Mutex(0)
            let response = try await central.startRequest("POST", "/photos", files: files) { progress in
                bar.update(progress.completed, of: progress.total)
                events.withLock { $0 += 1 }
            }
            bar.clear()
            server.bodyReadRate = nil
            let received = try response.json()["received"].int ?? 0
            let size = Int64(note.count) + DemoServer.uploadSize
            return DemoOutcome(
                isExpected: response.status == 201 && Int64(received) > size && events.withLock { $0 > 0 },
                text:
                    "\(response.status) \(response.reason), \(output.bytes(Int64(received))) as multipart/form-data",
                timings: response.timings)
        }
    }

    private static let photoName = "photo.jpg"

    func resumeADownload() -> Step {
        Step(
            title: "A download, stopped and resumed",
            call: """
                let first = central.download("/film", to: "film.mp4")
                first.cancel(keepingProgress: true)            // or the process ends
                let film = try await central.download("/film", to: "film.mp4").value
                """
        ) {
            let directory = try TemporaryDirectory()
            let path = directory.path(of: "film.mp4")
            let start = ContinuousClock.now
            let first = central.download("/film", to: path)
            try await follow(first, "downloading") { $0.completed >= DemoServer.downloadStop }
            first.cancel(keepingProgress: true)
            _ = try? await first.value
            let second = central.download("/film", to: path)
            try await follow(second, "resuming") { $0.completed == $0.total }
            let film = try await second.value
            let time = ContinuousClock.now - start
            let data = try Data(contentsOf: URL(filePath: film.path))
            let isIntact = MockPattern.firstMismatch(in: data, at: 0) == nil
            return DemoOutcome(
                isExpected: isIntact && film.byteCount == DemoServer.downloadSize && film.resumedByteCount > 0,
                text: "\(output.bytes(film.byteCount)), \(output.bytes(film.resumedByteCount)) of them from the "
                    + "first run, " + (isIntact ? "every byte is right" : "but not all bytes are right"),
                timings: film.response.timings, total: time)
        }
    }

    /// Shows the progress of a download until it is far enough, or has ended.
    private func follow(
        _ download: Download, _ label: String, until isFarEnough: (TransferProgress) -> Bool
    ) async throws {
        let bar = output.bar(label)
        defer { bar.clear() }
        while download.state == .running {
            let progress = download.currentProgress
            bar.update(progress.completed, of: progress.total)
            if isFarEnough(progress) { return }
            try await Task.sleep(for: .milliseconds(10))
        }
    }
}
