import FoundationEssentials
import LATNetworking

/// What is said of a download that is over: pure functions.
enum DownloadReport {
    /// The last component of a path or URL, cut to what a line can spare.
    static func label(_ command: DownloadCommand) -> String {
        let path = command.output == "." || command.output.hasSuffix("/") ? command.url : command.output
        let name = SafeText.line(path.split(separator: "/").last.map(String.init) ?? path)
        return name.count <= 24 ? name : name.prefix(12) + "…" + name.suffix(11)
    }

    /// `big.iso  4.00 GiB in 12.3 s (333 MiB/s), 1.20 GiB of it were there`
    static func summary(_ file: DownloadedFile, _ time: Duration) -> String {
        let name = SafeText.line(file.path)
        if file.isSkipped { return "\(name)  is there already and was left alone" }
        let rate = Quantity.bytes(Int64(Double(file.receivedByteCount) / max(time.inSeconds, 0.000_1)))
        let resumed = file.resumedByteCount > 0 ? ", \(Quantity.bytes(file.resumedByteCount)) of it were there" : ""
        return "\(name)  \(Quantity.bytes(file.byteCount)) in \(Quantity.duration(time)) (\(rate)/s)\(resumed)"
    }

    /// How to go on after Ctrl-C.
    static func interruption(_ progress: DownloadProgress) -> String {
        let total = progress.total.map { " of \(Quantity.bytes($0))" } ?? ""
        return "lat: stopped after \(Quantity.bytes(progress.completed))\(total); the same command goes on from there"
    }

    /// One object; what is not known is null.
    static func json(
        _ command: DownloadCommand, _ result: Result<DownloadedFile, NetworkError>, _ progress: DownloadProgress,
        _ time: Duration
    ) -> JSONValue {
        var object: [String: JSONValue] = [
            "url": .string(command.url), "milliseconds": .double(Double(time.microseconds) / 1_000),
            "completed": .int(progress.completed), "total": progress.total.map { .int($0) } ?? .null,
            "path": .null, "byteCount": .null, "skipped": .bool(false), "resumed": .null, "received": .null,
            "digest": .null, "status": .null, "error": .null,
        ]
        switch result {
        case .success(let file):
            object["path"] = .string(file.path)
            object["byteCount"] = .int(file.byteCount)
            object["skipped"] = .bool(file.isSkipped)
            object["resumed"] = .int(file.resumedByteCount)
            object["received"] = .int(file.receivedByteCount)
            object["digest"] = file.digest.map { .string($0) } ?? .null
            object["status"] = .int(Int64(file.response.status))
            object["url"] = .string(file.response.url)
        case .failure(let error):
            let (kind, detail) = error.kind.names
            object["status"] = error.response.map { .int(Int64($0.status)) } ?? .null
            object["error"] = [
                "kind": .string(kind), "detail": detail.map { .string($0) } ?? .null, "message": .string(error.message),
            ]
        }
        return .object(object)
    }
}
