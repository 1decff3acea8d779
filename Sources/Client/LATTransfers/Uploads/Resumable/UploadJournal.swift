import FoundationEssentials
import HTTPCore

/// The file with which an upload can be continued, even after a crash of the process: where the upload is on the server, and of
/// which version of which file it is. It holds nothing secret but the addresses.
///
/// It is written when the server has created the upload, before its first bytes are sent, and has the form of the journal of a
/// download (``ChecksummedText``). How much of the file the server has, only the server knows.
struct UploadJournal: Hashable, Sendable {
    static let version = 1
    private static let title = "LATNetworking-upload-journal"

    struct Lane: Hashable, Sendable {
        var range: Range<Int64>
        var address: String?
    }

    /// A digest of the identity of the upload.
    var identity: String
    var file: FileVersion
    var style: ResumableUpload.Style
    var shape: UploadPlan.Shape
    /// The name of the upload that parts belong to.
    var upload: String?
    var partSize: Int64
    var lanes: [Lane] = []
    /// The parts of an upload that may be complete, by which its result is recognized.
    var parts: [UploadPlan.Part] = []
    var mayBeComplete = false
    /// Whether the upload was cancelled, and the server still has to be told.
    var isRemoved = false
    /// The interop version of the draft, if the server has named it.
    var interop: Int?

    func encoded() throws -> Data {
        var object: [String: JSONValue] = [
            "identity": .string(identity), "protocol": .string(style.rawValue), "shape": .string(shape.rawValue),
            "partSize": .int(partSize), "mayBeComplete": .bool(mayBeComplete),
            "file": .array(
                [
                    file.size, file.seconds, file.nanoseconds, file.changeSeconds, file.changeNanoseconds,
                    Int64(bitPattern: file.inode),
                ]
                .map { .int($0) }),
            "lanes": .array(
                lanes.map { lane in
                    .object([
                        "from": .int(lane.range.lowerBound), "to": .int(lane.range.upperBound),
                        "address": lane.address.map { .string($0) } ?? .null,
                    ])
                }),
            "parts": .array(
                parts.map { .object(["tag": .string($0.tag), "checksum": $0.checksum.map { .string($0) } ?? .null]) }),
        ]
        object["upload"] = upload.map { .string($0) }
        if isRemoved { object["isRemoved"] = true }
        object["interop"] = interop.map { .int(Int64($0)) }
        return try ChecksummedText.encode(.object(object), title: Self.title, version: Self.version)
    }
}

extension UploadJournal {
    /// `nil` if the file is damaged or has another format version.
    init?(decoding data: Data) {
        guard let document = ChecksummedText.decode(data, title: Self.title, version: Self.version),
            let identity = document["identity"]?.string,
            let style = document["protocol"]?.string.flatMap(ResumableUpload.Style.init),
            let shape = document["shape"]?.string.flatMap(UploadPlan.Shape.init),
            let partSize = document["partSize"]?.int64, partSize > 0,
            let numbers = document["file"]?.array?.compactMap(\.int64), numbers.count == 6,
            (0...Int64.max / 2).contains(numbers[0]),
            let lanes = document["lanes"]?.array, let parts = document["parts"]?.array
        else { return nil }
        let file = FileVersion(
            size: numbers[0], seconds: numbers[1], nanoseconds: numbers[2], changeSeconds: numbers[3],
            changeNanoseconds: numbers[4], inode: UInt64(bitPattern: numbers[5]))
        self.init(
            identity: identity, file: file, style: style, shape: shape, upload: document["upload"]?.string,
            partSize: partSize, mayBeComplete: document["mayBeComplete"]?.bool ?? false,
            isRemoved: document["isRemoved"]?.bool ?? false,
            interop: document["interop"]?.int64.map(Int.init(clamping:)))
        var end: Int64 = 0
        for lane in lanes {
            guard let from = lane["from"]?.int64, let to = lane["to"]?.int64, from == end, from <= to else {
                return nil
            }
            self.lanes.append(Lane(range: from..<to, address: lane["address"]?.string))
            end = to
        }
        for part in parts {
            guard let tag = part["tag"]?.string else { return nil }
            self.parts.append(UploadPlan.Part(tag: tag, checksum: part["checksum"]?.string))
        }
        let isWhole = shape == .parts ? upload != nil && lanes.isEmpty : end == file.size && !lanes.isEmpty
        // S3 has no larger parts.
        guard isWhole, shape != .parts || ResumableUpload.limits.partSize.contains(Int(partSize)),
            (shape == .parts) == (style == .s3), interop.map(UploadPlan.versions.contains) ?? true
        else {
            return nil
        }
    }
}

extension UploadPlan {
    /// Continues the upload that a journal describes.
    mutating func resume(from journal: UploadJournal) {
        shape = journal.shape
        upload = journal.upload
        if let interop = journal.interop { (version, isVersionKnown) = (interop, true) }
        mayBeComplete = journal.mayBeComplete
        if shape == .parts {
            lay(partsOf: journal.partSize)
            for (index, part) in journal.parts.enumerated() where lanes.indices.contains(index) {
                lanes[index].part = part
            }
        } else {
            lanes = journal.lanes.map { Lane(range: $0.range, address: $0.address) }
        }
    }

    /// The journal to write now; `nil` while the server has no upload.
    func journal(identity: String, _ file: FileVersion) -> UploadJournal? {
        guard hasUpload else { return nil }
        return UploadJournal(
            identity: identity, file: file, style: style, shape: shape, upload: upload, partSize: partSize,
            lanes: shape == .parts ? [] : lanes.map { UploadJournal.Lane(range: $0.range, address: $0.address) },
            parts: mayBeComplete ? lanes.compactMap(\.part) : [], mayBeComplete: mayBeComplete,
            interop: style == .standard && isVersionKnown ? version : nil)
    }
}
