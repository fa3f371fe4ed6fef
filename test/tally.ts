import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** Of all finished test files; a file that could not be run counts as one failure. */
interface Tally {
  passed: number;
  failed: number;
}

/**
 * Keeps the file named by `TRIBUTARY_TEST_TALLY` up to date, so that an interrupted run leaves its progress.
 */
export default class TallyReporter implements Reporter {
  readonly #file = process.env.TRIBUTARY_TEST_TALLY;
  readonly #tally: Tally = { passed: 0, failed: 0 };

  onTestModuleEnd(module: TestModule): void {
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === 'passed') this.#tally.passed += 1;
      if (state === 'failed') this.#tally.failed += 1;
    }
    const faults = [module, ...module.children.allSuites()].flatMap((suite) => suite.errors());
    if (faults.length > 0) this.#tally.failed += 1;
    this.#write();
  }

  onTestRunEnd(_modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    this.#tally.failed += unhandled.length;
    this.#write();
  }

  #write(): void {
    if (this.#file !== undefined) writeFileSync(this.#file, JSON.stringify(this.#tally));
  }
}
