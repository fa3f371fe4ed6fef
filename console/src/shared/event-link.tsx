import { useWorkspaceId } from '../frame/workspace.tsx';
import type { Environment } from './event-fields.ts';
import { TextLink } from './links.tsx';

interface Props {
  readonly messageId: string;
  readonly environment?: Environment;
  /** Approximate time of receipt: with it an old event is found whose id was chosen by the caller. */
  readonly around?: string;
}

/** Links to the path of an event. */
export function EventLink({ messageId, environment, around }: Props) {
  return (
    <TextLink
      to="/w/$workspaceId/events/$messageId"
      params={{ workspaceId: useWorkspaceId(), messageId }}
      search={{ ...(environment && { environment }), ...(around && { around }) }}
      ff="monospace"
      size="sm"
      style={{ overflowWrap: 'anywhere' }}
    >
      {messageId}
    </TextLink>
  );
}
