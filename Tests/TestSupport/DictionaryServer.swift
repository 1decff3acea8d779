import FoundationEssentials
import LATTesting

extension MockReply {
    /// The response to a request for a resource whose first response is the dictionary of all others (RFC 9842): where one is
    /// offered, 131,072 times the letter a, in 50 bytes.
    package static func repeated(to request: RecordedRequest) -> MockReply {
        let offer = request.headers["Available-Dictionary"]?.split(separator: ":").first
        guard let offer, let digest = Data(base64Encoded: String(offer)) else {
            return .text("the dictionary").header("Cache-Control", "max-age=3600")
                .header("Use-As-Dictionary", "match=\"/*\"")
        }
        // One block that repeats a byte (RFC 8878 §3.1.1.2).
        let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0, 0x58, 3, 0, 0x10, 0x61]
        let head: [UInt8] = [0x5E, 0x2A, 0x4D, 0x18, 0x20, 0, 0, 0]
        return .data(Data(head) + digest + frame).header("Content-Encoding", "dcz")
    }
}
