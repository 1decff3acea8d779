@_exported import struct Platform.SeededGenerator
