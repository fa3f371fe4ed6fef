/**
 * A process that puts entries until it is killed, for the suite: `writer.ts <harness module> <settings>
 * <first> <start>`; start is the time origin of the suite.
 */
import { tell } from '../../../helpers/child.ts';
import { entries, type HistoryHarness, START } from '../suite/harness.ts';

export const PUT_SIZE = 20;

if (process.argv[1] === import.meta.filename) {
  const [module = '', settings = '', first = '', start = ''] = process.argv.slice(2);
  const later = Number(start) - START;
  const { harness } = (await import(module)) as { harness: HistoryHarness };
  const history = await harness.open(settings);
  for (let n = Number(first); ; n += PUT_SIZE) {
    await history.put(entries(n, n + PUT_SIZE).map((each) => ({ ...each, at: each.at + later })));
    tell(n);
  }
}
