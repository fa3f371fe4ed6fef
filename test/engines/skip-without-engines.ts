import type { TestProject } from 'vitest/node';
import { engines } from '../helpers/engines.ts';

/**
 * Skips every test of a project where there are no engines: the setup before this one has said so, once and loudly; in
 * CI it has failed.
 */
export default function setup(project: TestProject): void {
  if (engines() === undefined) project.config.testNamePattern = /^no test has this name$/;
}
