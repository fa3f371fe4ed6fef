import type { TestProject } from 'vitest/node';
import { engines } from '../helpers/engines.ts';

/**
 * Skips every test of a project on machines without engines. The global setup has already warned once, or
 * failed the run in CI.
 */
export default function setup(project: TestProject): void {
  if (engines() === undefined) project.config.testNamePattern = /^no test has this name$/;
}
