import Cryptography

// What a plan is made of, what it asks for, and what it is told.
extension UploadPlan {
    struct Lane: Hashable, Sendable {
        let range: Range<Int64>
        /// The upload on the server; `nil` before it was created, and for parts.
        var address: String?
        /// The bytes of the lane that the server has, as far as it has said.
        var stored: Int64 = 0
        /// Whether the server has said what it has since the last failure.
        var isKnown = false
        var isDone = false
        /// What identifies a stored part.
        var part: Part?
        var worker: Int?

        /// The bytes that the server has.
        var size: Int64 { isDone ? Int64(range.count) : stored }
    }

    /// What the server says of a stored part.
    struct Part: Hashable, Sendable {
        var tag: String
        var checksum: String?
        var size: Int64?
    }

    /// What the server says it can do.
    struct Facts: Hashable, Sendable {
        /// The interop version of the draft that it has named.
        var version: Int?
        var canJoin = false
        var createsWithContent = false
        /// The function for the checksum of the content of a request; `nil` if it takes none.
        var checksum: MessageDigest.Algorithm?
        var wholeChecksum: MessageDigest.Algorithm?
        var maxSize: Int64?
        /// Smaller files are not uploaded in parts.
        var minSize: Int64?
        var maxPart: Int64?
        var minPart: Int64?
    }

    enum Step: Hashable, Sendable {
        case probe
        /// Creates the upload of a lane, with its first bytes or none.
        case create(lane: Int, Range<Int64>)
        /// Creates the upload that parts belong to.
        case begin
        /// Asks which parts there are, from a number on.
        case list(after: Int)
        /// Asks how many bytes of a lane there are.
        case ask(lane: Int)
        case send(lane: Int, Range<Int64>)
        case complete
        /// Finds out whether an upload that is gone was completed.
        case verify

        var lane: Int? {
            switch self {
            case .create(let lane, _), .ask(let lane), .send(let lane, _): lane
            case .probe, .begin, .list, .complete, .verify: nil
            }
        }

        /// Whether the step only finds out what an earlier run has sent.
        var isQuestion: Bool {
            switch self {
            case .ask, .list: true
            case .probe, .create, .begin, .send, .complete, .verify: false
            }
        }
    }

    enum Answer: Hashable, Sendable {
        case probed
        /// The upload was created, and has so many bytes; `nil` if it has to be asked.
        case created(String, stored: Int64?)
        /// The lane has so many bytes.
        case offset(Int64)
        /// The parts that there are by number, and the number after which the list goes on; `nil` at its end.
        case listed([Int: Part], next: Int?)
        case stored(Part)
        /// The upload has all bytes, but its result is not known.
        case whole
        /// The response is the result of the upload.
        case finished
        /// The server does not know the upload.
        case gone
        /// The server refused for a reason that may pass, or has other bytes than expected.
        case again(Again)
        /// The content of the request is larger than the server takes: at most so many bytes, if it says so.
        case tooLarge(Int64?)
        /// The response is the final failure of the upload.
        case refused
        /// The upload is complete, and its result is a failure.
        case failed
        /// The upload is complete, and the server does not repeat its result.
        case unrepeated
        /// The response is the result of the upload if the server has all bytes.
        case unconfirmed
        /// The response contradicts the protocol, or does not tell whether the upload is complete; with the next step.
        case violation(String)
        /// What the server has cannot become the upload; with the next step.
        case unusable(String)
    }

    enum Again: Hashable, Sendable {
        /// The server has another offset than expected, or an earlier request still writes.
        case conflict
        /// The checksum that the server found is another one.
        case corrupt
        /// A status of the retry policy.
        case busy
    }

    /// What the job does after an answer.
    enum Outcome: Hashable, Sendable {
        case proceed
        case again(Again)
        case startOver
        case finished
        case refused
        /// The upload is over, and nothing of it can be continued.
        case failed
        case violation(String)
        case unusable(String)
    }
}
