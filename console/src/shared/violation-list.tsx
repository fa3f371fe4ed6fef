import { Code, List } from '@mantine/core';
import type { ShownViolation } from './violations.ts';

/** The violations of an event in words. */
export function ViolationList({ violations }: { readonly violations: readonly ShownViolation[] }) {
  return (
    <List size="sm">
      {violations.map(({ kind, path, message, action }) => (
        <List.Item key={`${kind} ${path} ${message}`} style={{ overflowWrap: 'anywhere' }}>
          {path !== '' && <Code>{path}</Code>} {message} ({kind}, {action})
        </List.Item>
      ))}
    </List>
  );
}
