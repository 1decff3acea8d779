internal import FoundationEssentials
internal import LATNetworking

/// The HAR file that the page saves: the entries of the records, each with `_call`, which groups them and has all else that the
/// page shows, so that the file looks the same when it is opened again.
enum PageHAR {
    static func data(of calls: [(record: CallRecord, number: UInt64)]) -> Data {
        let entries = calls.flatMap { record, number in
            let call = about(record, number)
            return HAREntry(record: record).entries.map { entry in
                var entry = entry
                entry["_call"] = call
                return entry
            }
        }
        let creator: JSONValue = ["name": "LATInspect", "version": .string(CurlTransport.version)]
        let log: JSONValue = ["version": "1.2", "creator": creator, "entries": .array(entries)]
        return (try? (["log": log] as JSONValue).data()) ?? Data()
    }

    private static func about(_ record: CallRecord, _ number: UInt64) -> JSONValue {
        let line = (try? JSONEncoder().encode(WireCall(record, number: number))).flatMap { try? JSONValue(parsing: $0) }
        var call = line ?? ["id": .int(Int64(clamping: record.id))]
        let sources = WireDetails(record).headerSources.map { source -> JSONValue in
            ["name": .string(source.name), "source": .string(source.source)]
        }
        call["headerSources"] = .array(sources)
        return call
    }
}
