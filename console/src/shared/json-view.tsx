import { ActionIcon, Box, CopyButton, Tooltip } from '@mantine/core';
import { CheckIcon, CopyIcon } from '@radix-ui/react-icons';
import { useMemo } from 'react';
import { type CodeMark, CodeView } from './code-view.tsx';
import { DiffView } from './diff-view.tsx';
import { inOrderOf, jsonTextOf } from './json-text.ts';

export interface JsonMark {
  /** JSON pointer from the root of the value; a missing value is marked at the nearest value around it. */
  readonly path: string;
  readonly message: string;
  readonly severity: CodeMark['severity'];
}

interface Props {
  readonly value: unknown;
  /** Names the value for screen readers: `Event as received`. */
  readonly label: string;
  /** Keep the same array while nothing changes. */
  readonly marks?: readonly JsonMark[];
  readonly maxHeight?: string;
}

const NO_MARKS: readonly JsonMark[] = [];

/** A JSON value to read and copy, with marks at values. */
export function JsonView({ value, label, marks = NO_MARKS, maxHeight }: Props) {
  const { text, lineMarks } = useMemo(() => {
    const { text, lineOf } = jsonTextOf(value);
    const lineMarks = marks.map(({ path, message, severity }) => ({ line: lineOf(path), message, severity }));
    return { text, lineMarks };
  }, [value, marks]);
  return (
    <Box pos="relative">
      <CodeView
        value={text}
        language="json"
        label={label}
        marks={lineMarks}
        {...(maxHeight && { maxHeight })}
      />
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon
              pos="absolute"
              top={6}
              right={18}
              variant="default"
              aria-label={`Copy ${label}`}
              onClick={copy}
            >
              {copied ? <CheckIcon /> : <CopyIcon />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Box>
  );
}

interface DiffProps {
  readonly before: unknown;
  readonly after: unknown;
  readonly label: string;
  readonly maxHeight?: string;
}

/** The differences between two JSON values, regardless of the order of members. */
export function JsonDiff({ before, after, label, maxHeight }: DiffProps) {
  const texts = useMemo(
    () => ({ before: jsonTextOf(before).text, after: jsonTextOf(inOrderOf(after, before)).text }),
    [before, after],
  );
  return <DiffView {...texts} language="json" label={label} {...(maxHeight && { maxHeight })} />;
}
