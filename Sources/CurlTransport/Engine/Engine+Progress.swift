import CLibcurl
import HTTPCore

// What is told of a transfer's progress, and when.
extension Engine {
    /// In milliseconds: what a person sees as motion.
    static let progressInterval: Int64 = 50

    func progressed(download: (Int64, Int64), upload: (Int64, Int64), _ handle: EasyHandle) {
        guard let transfer = handle.transfer, transfer.plan.progress != nil else { return }
        // The body of a challenge is not what is waited for.
        if transfer.mayBeChallenged, transfer.head.status == 401 || transfer.head.status == 407 { return }
        let isUpload = transfer.plan.body != nil
        var (completed, total) = isUpload ? upload : download
        if isUpload { completed = contentBytes(of: transfer, onWire: completed) }
        report(
            TransferProgress(
                direction: isUpload ? .upload : .download, completed: completed, total: total > 0 ? total : nil),
            of: transfer, isLast: false)
    }

    func reportLastProgress(_ transfer: Transfer, _ handle: EasyHandle, isWhole: Bool) {
        guard transfer.plan.progress != nil else { return }
        let isUpload = transfer.plan.body != nil
        var completed = handle.offset(isUpload ? CURLINFO_SIZE_UPLOAD_T : CURLINFO_SIZE_DOWNLOAD_T)
        if isUpload { completed = contentBytes(of: transfer, onWire: completed) }
        // libcurl adds the body of a challenge it answered to that of the answer.
        if !isUpload, transfer.mayBeChallenged, !transfer.head.isCoded { completed = transfer.bodyByteCount }
        report(
            TransferProgress(
                direction: isUpload ? .upload : .download, completed: completed,
                total: isWhole ? completed : transfer.lastProgress?.value.total),
            of: transfer, isLast: true)
    }

    /// libcurl counts the framing of a chunked body; content is what the source gave.
    func contentBytes(of transfer: Transfer, onWire bytes: Int64) -> Int64 {
        guard case .source = transfer.plan.body else { return bytes }
        return min(bytes, transfer.sourceBytes)
    }

    func report(_ progress: TransferProgress, of transfer: Transfer, isLast: Bool) {
        if let last = transfer.lastProgress {
            guard progress != last.value, progress.completed >= last.value.completed else { return }
            let isComplete = progress.total == progress.completed
            guard isLast || isComplete || now >= last.time + Self.progressInterval else { return }
        } else if progress.completed == 0, !isLast {
            return
        }
        transfer.lastProgress = (progress, now)
        transfer.plan.progress?(progress)
    }
}
