import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

/** Writes logs of the old message formats, as brokers before 0.11 did; nobody else does any more. */
public final class Legacy {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        int logs = Integer.parseInt(args[1]);
        for (int seed = 0; seed < logs; seed++)
            write(folder.resolve(seed + "/00000000000000000000.log"), new Random(seed));
    }

    private static void write(Path file, Random dice) throws Exception {
        file.getParent().toFile().mkdirs();
        try (FileChannel channel =
                 FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            long offset = dice.nextInt(3) * 1000L;
            for (int batches = 1 + dice.nextInt(5); batches > 0; batches--) {
                byte magic = (byte) dice.nextInt(2);
                TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
                    : dice.nextInt(3) == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
                MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16),
                    magic, codec(dice), type, offset, 1_500_000_000_000L);
                for (int records = 1 + dice.nextInt(6); records > 0; records--)
                    builder.appendWithOffset(offset++, magic == 0 ? -1 : 1_400_000_000_000L + dice.nextInt(99),
                        bytes(dice), bytes(dice));
                channel.write(builder.build().buffer());
            }
        }
    }

    private static Compression codec(Random dice) {
        return Compression.of(CompressionType.forId(dice.nextInt(4))).build();
    }

    private static byte[] bytes(Random dice) {
        if (dice.nextInt(4) == 0)
            return null;
        return "value ".repeat(dice.nextInt(200)).getBytes();
    }
}
