import { Page } from '../../shared/page.tsx';

export function NewDestinationPage() {
  return <Page title="New destination">{null}</Page>;
}
