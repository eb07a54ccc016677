import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;

/**
 * Kafka's range assignor, which takes as long as a file is not there: an assignor that is slow.
 *
 * The n-th assignment makes the file started-n in the folder held.assignor.folder, and goes on when
 * there is a file go-n.
 */
public final class HeldAssignor extends RangeAssignor implements Configurable {
    private static final AtomicInteger ASSIGNMENTS = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> settings) {
        folder = Path.of((String) settings.get("held.assignor.folder"));
    }

    @Override
    public String name() {
        return "held";
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
        int number = ASSIGNMENTS.incrementAndGet();
        try {
            Files.createFile(folder.resolve("started-" + number));
            while (!Files.exists(folder.resolve("go-" + number)))
                Thread.sleep(5);
        } catch (IOException | InterruptedException failed) {
            throw new IllegalStateException(failed);
        }
        return super.assign(group, topics);
    }
}
